import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ExecutionContext, TestFn } from 'ava';
import { stop as stopEsbuild } from 'esbuild';
import { beginSharing, stopShared } from './shared-platforms.ts';
import { testSilenceMs } from './time-outs.ts';

/*
 * ava gives every test file a process of its own, and each process loads the application anew: 1 to 2 s of CPU, more
 * than most files need for their tests. Here one process of ava runs a group of files after each other. Every file
 * keeps a runner of its own, so that its hooks, its serial tests and its titles stay apart from those of the others.
 */

/** A report of ava's runner to its main process. */
interface Report {
  readonly type?: string;
  readonly title?: string;
  readonly skip?: boolean;
  readonly err?: { readonly stack?: string };
}

/** The parts of ava 8.0.1 that it does not export. */
interface Runner {
  readonly chain: TestFn;
  readonly nextTaskIndex: number;
  on(event: 'stateChange', listen: (event: { readonly data: Report }) => void): void;
  once(event: readonly string[]): Promise<{ readonly name: string; readonly data: unknown }>;
}

const root = path.join(import.meta.dirname, '../..');
const partOfAva = (file: string): Promise<unknown> =>
  import(pathToFileURL(path.join(root, 'node_modules/ava/lib', file)).href);

const { default: AvaRunner } = (await partOfAva('runner.js')) as { default: new (options: object) => Runner };
const { send } = (await partOfAva('worker/channel.js')) as { send: (report: Report) => void };
const { refs } = (await partOfAva('worker/state.js')) as { refs: { runnerChain: TestFn } };

const outer = refs.runnerChain;
let current = outer;
// The module "ava" exports this object to all files; which file declares a test is known when it does.
refs.runnerChain = new Proxy(outer, {
  apply: (_target, self, args) => Reflect.apply(current, self, args) as unknown,
  get: (_target, name) => Reflect.get(current, name) as unknown,
});
const { registerCompletionHandler } = await import('ava');

const separator = ' › ';

/**
 * The report with the file as the last place of an error: ava's TAP report ends the whole run with a YAMLException at an
 * error whose stack names no place (supertap 3, as ava 8.0.1 has it).
 */
const withPlace = (report: Report, file: string): Report => {
  const { err } = report;
  return err?.stack === undefined ? report : { ...report, err: { ...err, stack: `${err.stack}\n    at ${file}` } };
};

/** The file's name as ava shows it before a title: `projects › create`. */
const shownName = (file: string): string =>
  file
    .replace(/^test\//, '')
    .replace(/\.test\.ts$/, '')
    .replaceAll('/', separator);

const endTypes = new Set(['test-passed', 'test-failed']);

/**
 * Rejects when a file has reported nothing for so long that it hangs, and names the tests that have not ended. ava's own
 * limit comes later and cannot name them: its TAP report fails with a TypeError when a run times out (ava 8.0.1).
 */
const watchSilence = (file: string) => {
  const open = new Set<string>();
  const silent = Promise.withResolvers<never>();
  const giveUp = (): void =>
    silent.reject(
      new Error(`${file} hangs. These tests have not ended: ${[...open].join(', ') || 'none (a hook hangs)'}`),
    );
  const timer = setTimeout(giveUp, testSilenceMs);
  const hear = ({ type = '', title, skip = false }: Report): void => {
    timer.refresh();
    if (title === undefined) return;
    if (type === 'selected-test' && !skip) open.add(title);
    if (endTypes.has(type)) open.delete(title);
  };
  return { hear, hangs: silent.promise, stop: () => clearTimeout(timer) };
};

const runFile = async (file: string): Promise<void> => {
  const absolute = path.join(root, file);
  const runner = new AvaRunner({ file: absolute, projectDir: root });
  const watch = watchSilence(file);
  runner.on('stateChange', ({ data }) => {
    watch.hear(data);
    const report = withPlace(data, file);
    send(data.title === undefined ? report : { ...report, title: `${shownName(file)}${separator}${data.title}` });
  });
  const end = runner.once(['finish', 'error']);
  current = runner.chain;
  try {
    await import(pathToFileURL(absolute).href);
    if (runner.nextTaskIndex === 0) throw new Error(`${file} has no tests`);
    const { name, data } = await Promise.race([end, watch.hangs]);
    if (name === 'error') throw data;
  } finally {
    watch.stop();
  }
};

/** Rejects with that message when tests would long have been silent for too long. */
const failAfter = (message: string): Promise<never> =>
  new Promise((_resolve, reject) => {
    setTimeout(() => reject(new Error(message)), testSilenceMs).unref();
  });

const openForMs = 10_000;

/**
 * Something that the tests left open must not keep the process, and with it the whole run, for ever: in CI it took the
 * 75 minutes of its limit once. It is named, and the process ends.
 */
const endAfterTests = (): void => {
  registerCompletionHandler(() => {
    setTimeout(() => {
      process.stderr.write(`left open by the tests: ${process.getActiveResourcesInfo().join(', ')}\n`);
      process.exit();
    }, openForMs).unref();
  });
};

/** Runs the tests of these files, given as paths from the checkout, after each other in this process of ava. */
export const runGroup = (files: readonly string[]): void => {
  endAfterTests();
  outer('every file of the group is run', async (t: ExecutionContext) => {
    const failures: unknown[] = [];
    beginSharing();
    for (const file of files) await runFile(file).catch((error: unknown) => failures.push({ file, error }));
    await Promise.race([stopShared(), failAfter('The shared platforms do not stop.')]).catch((error: unknown) =>
      failures.push({ error }),
    );
    // Its service, with a request that was never answered, kept a process alive until the whole run was given up.
    await stopEsbuild();
    t.deepEqual(failures, []);
  });
};
