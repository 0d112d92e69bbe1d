import { type ChildProcess, type StdioOptions, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { z } from 'zod';
import { environment } from '#lib/config.ts';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { type ErrorCode, ServiceError, errorStatus } from '#lib/errors.ts';
import { cpuTimeMs, processTree } from '#lib/processes.ts';

/**
 * Runs few pieces of work at a time, one of each project, by fair queueing: a project with a long queue waits for
 * itself, and another one for at most one piece of work of each project. Work without a project is a project of its
 * own.
 * @throws {ServiceError} `queue_full` when too much waits, or when its turn did not come in time
 */
export type CompileLine = <T>(projectId: string | undefined, work: () => Promise<T>) => Promise<T>;

interface CompileLineBounds {
  /** The bound of one project, running compilations included. */
  readonly ofProject: number;
  /** The bound of all projects together. */
  readonly ofAll: number;
  /** A compilation that waits longer is refused: its caller has likely left. */
  readonly waitMs: number;
  /** Pieces of work, of different projects, that go on at the same time; 1 unless set. */
  readonly atOnce?: number;
}

/** A source can have 1 MB, and compiling it take 10 s of processor time. */
const usualBounds: CompileLineBounds = { ofProject: 64, ofAll: 256, waitMs: 30_000 };

interface Entry {
  readonly begin: () => Promise<void>;
  readonly refuse: (error: ServiceError) => void;
}

const tooMany = (message: string): ServiceError =>
  new ServiceError('queue_full', message, {
    hint: 'Nothing was deployed. Try again when fewer deploys wait.',
    headers: { 'Retry-After': '5' },
  });

const ofProjectFull = (): ServiceError => tooMany('Too many deploys of this project wait to be compiled.');
const ofAllFull = (): ServiceError => tooMany('Too many deploys wait to be compiled.');
const tookTooLong = (): ServiceError => tooMany('The deploy waited too long to be compiled.');

/** The waiting compilations by project; the first project in it is the next one. */
type Waiting = Map<string, Entry[]>;

const oldestOf = (waiting: Waiting): Entry[] =>
  [...waiting.values()].reduce((longest, line) => (line.length > longest.length ? line : longest), []);

const leave = (waiting: Waiting, name: string, entry: Entry): void => {
  const left = (waiting.get(name) ?? []).filter((other) => other !== entry);
  if (left.length === 0) waiting.delete(name);
  else waiting.set(name, left);
};

interface Next {
  readonly name: string;
  readonly entry: Entry;
}

const takeNext = (waiting: Waiting, running: ReadonlySet<string>): Next | undefined => {
  for (const [name, [entry, ...others]] of waiting) {
    if (running.has(name)) continue;
    waiting.delete(name);
    if (others.length > 0) waiting.set(name, others);
    if (entry) return { name, entry };
  }
  return undefined;
};

export const createCompileLine = ({
  ofProject,
  ofAll,
  waitMs,
  atOnce = 1,
}: CompileLineBounds = usualBounds): CompileLine => {
  const waiting: Waiting = new Map();
  const running = new Set<string>();

  /** Makes room for one more of a project; a full queue drops the last of the project with the most entries. */
  const admit = (name: string): void => {
    const own = waiting.get(name)?.length ?? 0;
    if (own + (running.has(name) ? 1 : 0) >= ofProject) throw ofProjectFull();
    const all = [...waiting.values()].reduce((sum, line) => sum + line.length, running.size);
    if (all < ofAll) return;
    const longest = oldestOf(waiting);
    if (longest.length <= own + 1) throw ofAllFull();
    longest.at(-1)?.refuse(ofAllFull());
  };

  /** Goes on until nothing waits, or only work of projects that run already. */
  const runAll = async (): Promise<void> => {
    for (let next = takeNext(waiting, running); next; next = takeNext(waiting, running)) {
      running.add(next.name);
      await next.entry.begin();
      running.delete(next.name);
    }
  };

  const wait = <T>(name: string, work: () => Promise<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const entry: Entry = {
        begin: async () => {
          clearTimeout(timer);
          await work().then(resolve, reject);
        },
        refuse: (error) => {
          clearTimeout(timer);
          leave(waiting, name, entry);
          reject(error);
        },
      };
      const timer = setTimeout(() => entry.refuse(tookTooLong()), waitMs);
      waiting.set(name, [...(waiting.get(name) ?? []), entry]);
    });

  let unnamed = 0;
  return async (projectId, work) => {
    const name = projectId ?? `work ${(unnamed += 1)}`;
    admit(name);
    const done = wait(name, work);
    if (running.size < atOnce) void runAll();
    return done;
  };
};

/** Several files that become one text. */
interface Bundle {
  /** JSON text, `{path: text}`. */
  readonly files: string;
  /** Path of the file whose exports count. */
  readonly entrypoint: string;
  /** Name of the handler. */
  readonly entryPoint: string;
  /** The limit on the bundle. */
  readonly maxBytes: number;
}

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
  /**
   * The same for several files.
   * @throws {ServiceError} as `compile`
   */
  readonly bundle: (bundle: Bundle, projectId: string) => Promise<string>;
  readonly close: () => void;
}

const script = path.join(import.meta.dirname, 'compile-process.ts');

interface CompilerLimits {
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
  const env = { PATH: environment()['PATH'] ?? '' };
  // Ten megabytes of text as JSON would hold up the event loop for some 30 ms.
  const child = spawn(file, args, { stdio, detached: true, env, serialization: 'advanced' });
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

type Question = { readonly source: string; readonly entryPoint: string | undefined } | Bundle;

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
    bundle: (bundle, projectId) => inLine(projectId, () => compileNow(bundle)),
    close: () => {
      for (const child of all) end(child);
    },
  };
};
