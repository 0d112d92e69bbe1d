import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Stack } from '#scripts/stack.ts';
import { clock } from './witness.ts';

/** One process that a scenario may kill. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /** Resolves when it said that it is ready; rejects when it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended: when, by the witness's clock, and how. */
  readonly end: Promise<{ readonly at: number; readonly how: number | NodeJS.Signals | null }>;
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly port: () => number;
}

export interface ChildSpec {
  readonly name: string;
  /** From the checkout. */
  readonly file: string;
  readonly args?: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
}

const root = path.join(import.meta.dirname, '..');

const endOf = (child: ChildProcess): Child['end'] =>
  new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ at: clock(), how: code ?? signal }));
  });

/** Starts a process of ours; its output goes to a file of its name. */
export const startChild = (stack: Stack, { name, file, args = [], env, folder }: ChildSpec): Child => {
  const logFile = path.join(folder, `${name}.log`);
  const log = openSync(logFile, 'a');
  const child = spawn(process.execPath, ['--no-node-snapshot', path.join(root, file), ...args], {
    cwd: root,
    env,
    stdio: ['ignore', log, log, 'ipc'],
    detached: true,
  });
  closeSync(log);
  stack.attend(name, child).catch(() => undefined);
  const end = endOf(child);
  let port = 0;
  const ready = new Promise<void>((resolve, reject) => {
    child.once('message', (message: { port?: number }) => {
      port = message.port ?? 0;
      resolve();
    });
    void end.then(({ how }) =>
      reject(new Error(`${name} ended (${how}) before it was ready:\n${readFileSync(logFile, 'utf8').slice(-2000)}`)),
    );
  });
  ready.catch(() => undefined);
  return {
    name,
    pid: child.pid ?? 0,
    ready,
    end,
    signal: (signal) => void child.kill(signal),
    port: () => port,
  };
};
