import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { processIdentity } from '#scripts/process-identity.ts';

export const root = path.resolve(import.meta.dirname, '../..');

/** Asks until the answer is yes; a behaviour that never comes fails by the time-out of the test runner. */
export const until = async <T>(probe: () => T | Promise<T>): Promise<Exclude<T, null | undefined | false>> => {
  for (;;) {
    const answer = await probe();
    if (answer !== null && answer !== undefined && answer !== false) {
      return answer as Exclude<T, null | undefined | false>;
    }
    await delay(20);
  }
};

/** A folder that is removed after the test; its name has a space and a quote in it, as those of people do. */
export const temporaryFolder = (t: Pick<ExecutionContext, 'teardown'>): string => {
  const folder = mkdtempSync(path.join(tmpdir(), `plinth it's `));
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
};

export const isAlive = (pid: number): boolean => processIdentity(pid) !== null;

export const readText = (file: string): string => readFileSync(file, 'utf8');

/** Our environment without the platform that runs the tests. */
export const plainEnvironment = (extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => {
  const ours = /^(PLINTH_|npm_)|^(DATABASE_URL|REDIS_URL|DATA_DIR|PORT|WORKERS|DRAIN_MS)$/;
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name))), ...extra };
};

export interface Program {
  readonly child: ChildProcess;
  readonly pid: number;
  /** All that it wrote so far. */
  readonly output: () => string;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly end: Promise<number | NodeJS.Signals | null>;
}

/** Runs a script with this Node. The channel tells it when the test process is gone, whatever ended that. */
export const runScript = (args: readonly string[], env: NodeJS.ProcessEnv = plainEnvironment()): Program => {
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text) => chunks.push(text));
  const end = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? signal));
  });
  return { child, pid: child.pid ?? 0, output: () => chunks.join(''), end };
};
