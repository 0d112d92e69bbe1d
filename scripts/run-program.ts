import { spawn } from 'node:child_process';
import { signalGroup } from './leftovers.ts';

interface ProgramOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly uid?: number;
  readonly gid?: number;
  readonly input?: string;
  readonly timeoutMs?: number;
}

/** Runs a program to its end and gives what it wrote to standard output. */
export type RunProgram = (command: string, args: readonly string[], options?: ProgramOptions) => Promise<string>;

/** A program that could not be started, failed, or took too long. */
export class ProgramError extends Error {
  override readonly name = 'ProgramError';
  /** All that it wrote to standard error (and output, when it wrote only there). */
  readonly output: string;

  constructor(command: string, how: string, output: string) {
    const lastWords = output.trim().split('\n').at(-1) ?? '';
    super(`${command} ${how}${lastWords === '' ? '' : `: ${lastWords}`}`);
    this.output = output;
  }
}

export interface Watcher {
  /** Aborting it kills what runs. */
  readonly signal: AbortSignal;
  readonly began: (pid: number, command: string) => void;
  readonly ended: (pid: number) => void;
}

const defaultTimeoutMs = 180_000;

/** A `RunProgram` whose programs are known to `watcher` for as long as they run. */
export const programRunner =
  (watcher: Watcher): RunProgram =>
  (command, args, options = {}) =>
    new Promise((resolve, reject) => {
      watcher.signal.throwIfAborted();
      const { input, timeoutMs = defaultTimeoutMs, ...rest } = options;
      const child = spawn(command, args, { ...rest, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
      const { pid } = child;
      const kill = (): void => {
        if (pid !== undefined) signalGroup(pid, 'SIGKILL');
      };
      const overdue = setTimeout(kill, timeoutMs);
      watcher.signal.addEventListener('abort', kill);
      if (pid !== undefined) watcher.began(pid, command);
      const [stdout, stderr]: [string[], string[]] = [[], []];
      child.stdout.setEncoding('utf8').on('data', (text: string) => stdout.push(text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => stderr.push(text));
      child.stdin.on('error', () => undefined).end(input);
      const finish = (failure: string | null): void => {
        clearTimeout(overdue);
        watcher.signal.removeEventListener('abort', kill);
        if (pid !== undefined) watcher.ended(pid);
        const output = stdout.join('');
        if (failure === null) resolve(output);
        else reject(new ProgramError(command, failure, stderr.join('') || output));
      };
      child.once('error', (error) => finish(`could not be started (${error.message})`));
      child.once('close', (code, signal) => finish(code === 0 ? null : `ended with ${signal ?? `code ${code}`}`));
    });
