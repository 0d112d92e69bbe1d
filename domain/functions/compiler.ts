import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { z } from 'zod';
import { environment } from '#lib/config.ts';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { type ErrorCode, ServiceError, errorStatus } from '#lib/errors.ts';
import { createCompileLine } from './compile-line.ts';

/**
 * Compiles functions in a process of its own, with bounds on time and memory: code is a stranger's, and 26 KB of it can
 * make half a gigabyte of text or overflow the compiler's stack. What ends that process ends one deploy.
 */
export interface Compiler {
  /**
   * @param projectId whose turn it takes
   * @throws {ServiceError} `validation_failed`, `import_not_bundled`, `queue_full`
   */
  readonly compile: (source: string, projectId?: string) => Promise<string>;
  readonly close: () => void;
}

const script = path.join(import.meta.dirname, 'compile-process.ts');
const timeoutMs = 10_000;
const heapMib = 512;
const dataBytes = 3 * 1024 * 1024 * 1024; // of each process in it; V8 alone reserves more than it uses
const mostCompiledLength = 4 * 1024 * 1024;

const replySchema = z.union([
  z.object({ code: z.string() }),
  z.object({
    error: z.object({
      code: z.enum(Object.keys(errorStatus) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z.unknown(),
      hint: z.string().nullable(),
    }),
  }),
]);

const invalidCode = (message: string): ServiceError =>
  new ServiceError('validation_failed', `The function's code ${message}.`, { details: [{ path: 'code', message }] });

const hasPrlimit = (): boolean => spawnSync('prlimit', ['--version'], { stdio: 'ignore' }).status === 0;

const startProcess = (limited: boolean): ChildProcess => {
  const node = [process.execPath, `--max-old-space-size=${heapMib}`, script];
  const [file = '', ...args] = limited ? ['prlimit', `--data=${dataBytes}`, '--core=0', '--', ...node] : node;
  const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'ipc'];
  const child = spawn(file, args, { stdio, detached: true, env: { PATH: environment()['PATH'] ?? '' } });
  if (child.pid !== undefined) setNice(child.pid, baseNice);
  child.unref();
  child.channel?.unref();
  return child;
};

/** The compiler's own helper is in the same process group. */
const end = (child: ChildProcess): void => {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
};

const readReply = (message: unknown): string => {
  const reply = replySchema.parse(message);
  if ('code' in reply) {
    if (reply.code.length > mostCompiledLength) throw invalidCode('grows too large when it is compiled');
    return reply.code;
  }
  const { code, message: text, details, hint } = reply.error;
  throw new ServiceError(code, text, { details, ...(hint !== null && { hint }) });
};

/** One question and its answer; null when the process ended or took too long, and was killed. */
const ask = (child: ChildProcess, source: string): Promise<unknown> =>
  new Promise((resolve) => {
    const done = (answer: unknown): void => {
      clearTimeout(timer);
      child.removeAllListeners();
      child.on('error', () => undefined);
      if (answer === null) end(child);
      resolve(answer);
    };
    const timer = setTimeout(done, timeoutMs, null);
    child.once('message', done);
    child.once('exit', () => done(null));
    child.once('error', () => done(null));
    child.send({ source });
  });

/** The process starts with the first deploy and stays; deploys go through it one after the other, by `createCompileLine`. */
export const createCompiler = (): Compiler => {
  const inLine = createCompileLine();
  let limited: boolean | undefined;
  let child: ChildProcess | undefined;

  const compileNow = async (source: string): Promise<string> => {
    limited ??= hasPrlimit();
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) child = startProcess(limited);
    const answer = await ask(child, source);
    if (answer === null) {
      child = undefined;
      throw invalidCode('takes too much time or memory to compile');
    }
    return readReply(answer);
  };

  return {
    compile: (source, projectId) => inLine(projectId, () => compileNow(source)),
    close: () => {
      if (child) end(child);
    },
  };
};
