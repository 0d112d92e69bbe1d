import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { LoadPlan, LoadResult } from './load.ts';

/** One process that serves: an API, a floor, or a worker, which has no port. */
export interface Server {
  readonly pid: number;
  readonly url: string;
  /** Sends it a message; resolves with the next one that it sends. */
  readonly request: (message: string) => Promise<unknown>;
  readonly stop: () => Promise<void>;
}

export interface ServerSpec {
  readonly name: string;
  /** From the checkout. */
  readonly file: string;
  readonly env?: Readonly<Record<string, string>>;
  /** For Node itself; workers need `--no-node-snapshot`. */
  readonly nodeArgs?: readonly string[];
  /** In a session of its own. */
  readonly detached?: boolean;
}

/** The processes that a run of the benchmarks starts beside the stack. */
export interface Servers {
  /** Resolves when it serves. */
  readonly start: (spec: ServerSpec) => Promise<Server>;
  /** Drives a server from a process of its own, so that the driver's CPU time is not the server's. */
  readonly load: (plan: LoadPlan) => Promise<LoadResult>;
  /** Ends all that still run. */
  readonly stopAll: () => Promise<void>;
}

export interface ServersPlace {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
  /** Where CPU profiles of the servers go, when they are wanted. */
  readonly profileFolder: string | undefined;
}

const patienceMs = 15_000;

const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const overdue = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  await gone;
  clearTimeout(overdue);
};

/** @throws {Error} with the end of its log when it ends before it serves */
const portOf = (child: ChildProcess, logFile: string): Promise<number> =>
  new Promise((resolve, reject) => {
    child.once('exit', () => {
      reject(new Error(`a server ended before it served:\n${readFileSync(logFile, 'utf8').slice(-2000)}`));
    });
    child.on('message', (message: { type?: string; port?: number }) => {
      if (message.type === 'ready') resolve(message.port ?? 0);
    });
  });

const profiling = (folder: string | undefined, name: string): string[] =>
  folder === undefined
    ? []
    : ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name}-${Date.now()}.cpuprofile`];

const resultOf = (child: ChildProcess): Promise<LoadResult> =>
  new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as LoadResult));
    child.once('exit', (code) => reject(new Error(`the load process ended with ${code} before it was done`)));
  });

export const createServers = ({ root, env, folder, profileFolder }: ServersPlace): Servers => {
  const running = new Set<ChildProcess>();
  const note = (child: ChildProcess): void => {
    running.add(child);
    child.once('exit', () => running.delete(child));
  };

  return {
    start: async ({ name, file, env: own, nodeArgs = [], detached = false }) => {
      const logFile = path.join(folder, `${name}.log`);
      const log = openSync(logFile, 'w');
      const child = spawn(process.execPath, [...nodeArgs, ...profiling(profileFolder, name), path.join(root, file)], {
        cwd: root,
        env: { ...env, PORT: '0', ...own },
        stdio: ['ignore', log, log, 'ipc'],
        detached,
      });
      closeSync(log);
      note(child);
      const port = await portOf(child, logFile);
      const request = async (message: string): Promise<unknown> => {
        const answered = once(child, 'message');
        child.send(message);
        return ((await answered) as unknown[])[0];
      };
      return { pid: child.pid ?? 0, url: `http://127.0.0.1:${port}`, request, stop: () => end(child) };
    },
    load: async (plan) => {
      const child = fork(path.join(root, 'bench/load.ts'), [], { cwd: root, serialization: 'advanced' });
      note(child);
      child.send(plan);
      try {
        return await resultOf(child);
      } finally {
        await end(child);
      }
    },
    stopAll: async () => {
      await Promise.all([...running].map(end));
    },
  };
};
