import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Bench } from '../harness.ts';

/** A process of its own that does one part of a benchmark: producer or worker, never both. */
export interface Child {
  readonly pid: number;
  /** Has it do something; resolves with what it answers. */
  readonly ask: <Answer>(what: string, plan?: unknown) => Promise<Answer>;
  readonly stop: () => Promise<void>;
  /** As a crash ends it. */
  readonly kill: () => Promise<void>;
}

interface Question {
  readonly number: number;
  readonly what: string;
  readonly plan: unknown;
}

interface Reply {
  readonly number: number;
  readonly answer?: unknown;
  readonly error?: string;
}

export type Handlers = Readonly<Record<string, (plan: never) => Promise<unknown>>>;

/** The child's side: answers its parent until that lets go of it. */
export const answerParent = (handlers: Handlers): void => {
  const answerTo = async ({ number, what, plan }: Question): Promise<Reply> => {
    try {
      const handle = handlers[what];
      if (handle === undefined) throw new Error(`no handler for ${what}`);
      return { number, answer: await handle(plan as never) };
    } catch (error) {
      return { number, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    }
  };
  process.on('message', (question) => void answerTo(question as Question).then((reply) => process.send?.(reply)));
  // Ctrl-C reaches the whole group: who ends when is the parent's to say.
  process.on('SIGINT', () => undefined);
  process.once('disconnect', () => process.exit(0));
};

const endBy = async (child: ChildProcess, end: () => void): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  end();
  const overdue = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await gone;
  clearTimeout(overdue);
};

const childOf = (process: ChildProcess): Child => {
  const open = new Map<number, PromiseWithResolvers<unknown>>();
  let requested = 0;
  process.on('message', (message) => {
    const { number, answer, error } = message as Reply;
    const question = open.get(number);
    open.delete(number);
    if (error === undefined) question?.resolve(answer);
    else question?.reject(new Error(error));
  });
  process.once('exit', () => {
    for (const question of open.values()) question.reject(new Error('a process of the benchmark ended too early'));
  });
  return {
    pid: process.pid ?? 0,
    ask: async <Answer>(what: string, plan?: unknown) => {
      const number = (requested += 1);
      const question = Promise.withResolvers<unknown>();
      open.set(number, question);
      process.send({ number, what, plan } satisfies Question);
      return (await question.promise) as Answer;
    },
    stop: () => endBy(process, () => process.disconnect()),
    kill: () => endBy(process, () => process.kill('SIGKILL')),
  };
};

/** Starts a program of a folder of the benchmarks; `detached`: in a session of its own. */
export type StartChild = (program: string, how?: { readonly detached: boolean }) => Child;

/** Gives `work` processes of programs in `bench/FOLDER`, and ends them all whatever happens. */
export const withChildren = async <T>(
  bench: Bench,
  work: (start: StartChild) => Promise<T>,
  folder = 'jobs',
): Promise<T> => {
  const children: Child[] = [];
  const stopAll = async (): Promise<void> => {
    await Promise.all(children.map((child) => child.stop()));
  };
  const profiles = bench.env['BENCH_PROFILE'];
  const interrupt = (): void => void stopAll();
  bench.signal.addEventListener('abort', interrupt);
  try {
    return await work((program, { detached } = { detached: false }) => {
      const process = fork(path.join(bench.root, `bench/${folder}/${program}.ts`), [], {
        cwd: bench.root,
        serialization: 'advanced',
        detached,
        execArgv:
          profiles === undefined
            ? []
            : [
                '--cpu-prof',
                `--cpu-prof-dir=${profiles}`,
                `--cpu-prof-name=${folder}-${program}-${Date.now()}.cpuprofile`,
              ],
      });
      const child = childOf(process);
      children.push(child);
      return child;
    });
  } finally {
    bench.signal.removeEventListener('abort', interrupt);
    await stopAll();
  }
};

/** Milliseconds by a clock that all processes of the machine share. */
export const sharedNow = (): number => Number(process.hrtime.bigint()) / 1e6;
