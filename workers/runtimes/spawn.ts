import type { Duplex } from 'node:stream';
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { SpawnCommand } from './guest.ts';

/** Where bubblewrap finds the filter; beyond every descriptor that a guest is given. It closes it after reading. */
export const seccompFd = 9;

/**
 * Starts a command of a sandbox.
 * @param stdio of descriptors below 9
 */
export function spawnCommand(command: SpawnCommand, stdio: readonly ('ignore' | 'pipe' | 'ipc')[]): ChildProcess {
  const { file, args, env, seccomp } = command;
  const child = spawn(file, args, {
    env: { ...env },
    stdio: seccomp === undefined ? [...stdio] : withFilter(stdio),
    // The terminal's Ctrl-C is for the platform, which then ends its guests in order.
    detached: true,
  });
  // The promises reject for a failed start; without any listener it would end the worker.
  child.on('error', () => undefined);
  const pipe = (child.stdio as readonly unknown[] | undefined)?.[seccompFd] as Writable | null | undefined;
  // It may end before it has read it; its end reports that.
  pipe?.on('error', () => undefined);
  pipe?.end(seccomp);
  return child;
}

/** A descriptor that is not passed stays closed in the child. */
const withFilter = (stdio: readonly ('ignore' | 'pipe' | 'ipc')[]): StdioOptions =>
  Array.from({ length: seccompFd + 1 }, (_, fd) => (fd === seccompFd ? 'pipe' : (stdio[fd] ?? 'ignore')));

/**
 * Runs a command of a sandbox to its end.
 * @returns its standard output
 * @throws with what it wrote on standard error in `stderr`, when it fails or takes too long
 */
export async function outputOf(command: SpawnCommand, timeoutMs: number): Promise<string> {
  const child = spawnCommand(command, ['ignore', 'pipe', 'pipe']);
  const { stdout, stderr } = child;
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code === 0 ? '' : `it ended with ${signal ?? code}`));
  });
  const [failure, output, words] = await Promise.all([ended, stdout ? text(stdout) : '', stderr ? text(stderr) : '']);
  clearTimeout(timer);
  if (failure !== '') throw Object.assign(new Error(`${command.file}: ${failure}`), { stderr: words });
  return output;
}

/**
 * The two-way stream that a guest has as file descriptor 3.
 * @throws when there are no file descriptors left to start a process with
 */
export function channelOf(child: ChildProcess): Duplex {
  const socket = (child.stdio as ChildProcess['stdio'] | undefined)?.[3];
  if (socket === undefined || socket === null) throw new Error('No process can be started: too many open files.');
  return socket as Duplex;
}
