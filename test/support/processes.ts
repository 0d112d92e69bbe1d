import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import type { Config } from '#lib/config.ts';

const root = path.join(import.meta.dirname, '../..');
const cheapPasswords = path.join(import.meta.dirname, 'cheap-passwords.ts');

/** One of the platform's processes, started as the supervisor starts it. */
export interface PlatformProcess {
  readonly child: ChildProcess;
  /** Resolves with what it said about itself once it serves; rejects when it ends before. */
  readonly ready: Promise<{ readonly port?: number }>;
  /** Resolves with the exit code or the signal. */
  readonly end: Promise<number | NodeJS.Signals | null>;
  readonly stderr: () => string;
  readonly stdout: () => string;
}

/** The settings of a process that is configured like `config`. */
export const environmentOf = ({ globalLimits, ...settings }: Config): Record<string, string> =>
  Object.fromEntries(
    Object.entries({ ...settings, ...globalLimits }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  );

/** @param inside a command and its arguments that runs what follows them, in a namespace for example */
export const startProcess = (
  script: string,
  env: Readonly<Record<string, string>>,
  inside: readonly string[] = [],
): PlatformProcess => {
  const node = [process.execPath, '--no-node-snapshot', '--import', cheapPasswords, script];
  const [command = '', ...args] = [...inside, ...node];
  const child = spawn(command, args, {
    cwd: root,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const written = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (written.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (written.stderr += text));
  // Not the event close: it never comes once the channel was closed from here.
  const end = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal));
  }).then(async (how) => {
    for (const stream of [child.stdout, child.stderr]) if (stream) await finished(stream);
    return how;
  });
  const ready = new Promise<{ port?: number }>((resolve, reject) => {
    child.on('message', (message) => resolve(message as { port?: number }));
    void end.then((how) => reject(new Error(`${script} ended (${how}): ${written.stderr}`)));
  });
  ready.catch(() => undefined);
  return { child, ready, end, stderr: () => written.stderr, stdout: () => written.stdout };
};
