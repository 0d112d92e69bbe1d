import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { z } from 'zod';
import { environment } from '#lib/config.ts';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { type ErrorCode, ServiceError, errorStatus } from '#lib/errors.ts';
import { cpuTimeMs, processTree } from '#lib/processes.ts';
import { createCompileLine, usualBounds } from './compile-line.ts';

/**
 * Compiles functions in a process of its own, with bounds on time and memory: code is a stranger's, and 26 KB of it can
 * make half a gigabyte of text or overflow the compiler's stack. What ends that process ends one deploy.
 */
export interface Compiler {
  /**
   * @param projectId whose turn it takes
   * @param entryPoint name of the handler; left out: whether the code has it is not checked
   * @throws {ServiceError} `validation_failed`, `import_not_bundled`, `queue_full`; `overloaded` when it had too little
   * processor time to be done
   */
  readonly compile: (source: string, projectId?: string, entryPoint?: string) => Promise<string>;
  readonly close: () => void;
}

const script = path.join(import.meta.dirname, 'compile-process.ts');

export interface CompilerLimits {
  /** Processor time of one deploy: what a machine is busy with beside it does not count. */
  readonly maxCpuMs: number;
  /** A compilation that takes so long although it had little processor time is no fault of the code. */
  readonly maxMs: number;
}

const usualLimits: CompilerLimits = { maxCpuMs: 10_000, maxMs: 60_000 };
const pollIntervalMs = 100;
const heapMib = 512;
const dataBytes = 3 * 1024 * 1024 * 1024; // of each process in it; V8 alone reserves more than it uses
const maxCompiledLength = 4 * 1024 * 1024;

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
    if (reply.code.length > maxCompiledLength) throw invalidCode('grows too large when it is compiled');
    return reply.code;
  }
  const { code, message: text, details, hint } = reply.error;
  throw new ServiceError(code, text, { details, ...(hint !== null && { hint }) });
};

interface Question {
  readonly source: string;
  readonly entryPoint: string | undefined;
}

type CompilerReply = { readonly answer: unknown } | 'ended' | 'spent' | 'slow';

const cpuOf = (child: ChildProcess): number =>
  child.pid === undefined ? 0 : processTree(child.pid).reduce((sum, pid) => sum + cpuTimeMs(pid), 0);

/** One question and its answer, or why there is none; then the process is killed. */
const compileIn = (
  child: ChildProcess,
  question: Question,
  { maxCpuMs, maxMs }: CompilerLimits,
): Promise<CompilerReply> =>
  new Promise((resolve) => {
    const cpuBefore = cpuOf(child);
    const done = (compiled: CompilerReply): void => {
      clearTimeout(timer);
      clearInterval(watch);
      child.removeAllListeners();
      child.on('error', () => undefined);
      if (typeof compiled === 'string') end(child);
      resolve(compiled);
    };
    const timer = setTimeout(done, maxMs, 'slow');
    const watch = setInterval(() => {
      if (cpuOf(child) - cpuBefore > maxCpuMs) done('spent');
    }, pollIntervalMs);
    child.once('message', (answer) => done({ answer }));
    child.once('exit', () => done('ended'));
    child.once('error', () => done('ended'));
    child.send(question);
  });

const tooBusy = (): ServiceError =>
  new ServiceError('overloaded', 'The machine is too busy to compile the function now. Nothing was deployed.', {
    hint: 'Try again shortly.',
    headers: { 'Retry-After': '10' },
  });

const isAlive = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;

/**
 * Its processes start with the first deploys and stay; deploys go through them by `createCompileLine`, two at a time,
 * so that a slow deploy delays only its own project.
 */
export const createCompiler = (limits: CompilerLimits = usualLimits): Compiler => {
  const inLine = createCompileLine({ ...usualBounds, atOnce: 2 });
  const idle: ChildProcess[] = [];
  const all = new Set<ChildProcess>();
  let limited: boolean | undefined;

  const take = (): ChildProcess => {
    for (let child = idle.pop(); child; child = idle.pop()) if (isAlive(child)) return child;
    const fresh = startProcess((limited ??= hasPrlimit()));
    all.add(fresh);
    return fresh;
  };

  const compileNow = async (question: Question): Promise<string> => {
    const child = take();
    const compiled = await compileIn(child, question, limits);
    if (typeof compiled === 'object') {
      idle.push(child);
      return readReply(compiled.answer);
    }
    all.delete(child);
    throw compiled === 'slow' ? tooBusy() : invalidCode('takes too much time or memory to compile');
  };

  return {
    compile: (source, projectId, entryPoint) => inLine(projectId, () => compileNow({ source, entryPoint })),
    close: () => {
      for (const child of all) end(child);
    },
  };
};
