import test, { type ExecutionContext } from 'ava';
import { type EgressOptions, createEgress } from '#lib/egress.ts';
import { type PythonOptions, createPythonRuntime } from '#workers/runtimes/python/index.ts';
import { findPython } from '#domain/functions/python.ts';
import { anonymousKib, processTree } from '#workers/runtimes/processes.ts';
import type { RunOutcome, Runtime } from '#workers/runtimes/runtime.ts';
import { commandLine, resultOf, sandbox, silentLog } from './harness.ts';

const interpreter = await findPython(undefined);

/** Why Python cannot be tried on this machine; null where it can. */
export const noPython = ((): string | null => {
  if (interpreter === null) return 'needs Python 3.9';
  return sandbox.level === 'strict' ? null : `needs namespaces; ${sandbox.warning}`;
})();

const closed: EgressOptions = { allow: '', local: true, resolve: () => Promise.resolve([]) };

export const openPython = (options: Partial<PythonOptions> = {}, egress: EgressOptions = closed): Promise<Runtime> => {
  if (interpreter === null) throw new Error('there is no Python');
  const way = createEgress(egress);
  return createPythonRuntime({
    interpreter,
    sandbox,
    egress: way,
    maxRunners: 4,
    spares: 1,
    log: silentLog,
    ...options,
  });
};

/** Zygotes, and processes of their runs, that this test process has started and that are alive. */
export const pythonGuests = (): number[] =>
  processTree(process.pid).filter((pid) => commandLine(pid).includes('guest/main.py'));

type Body = (t: ExecutionContext) => Promise<void>;

/** For behaviour of Python functions: skipped by name, with the reason, where they cannot run. One test at a time. */
export const pythonTest = (title: string, body: Body): void => {
  if (noPython === null) test.serial(title, body);
  else test.skip(`${title} (${noPython})`, body);
};

/** A runtime for one test file, ended with it. */
export const usePython = (options: Partial<PythonOptions> = {}, egress: EgressOptions = closed): (() => Runtime) => {
  let runtime: Runtime | undefined;
  test.before('Python', async () => {
    if (noPython === null) runtime = await openPython(options, egress);
  });
  test.after.always(() => runtime?.close());
  return () => {
    if (runtime === undefined) throw new Error('there is no Python');
    return runtime;
  };
};

const imports = 'import ctypes, gc, json, os, resource, signal, socket, struct, subprocess, sys, threading, time';
/** A handler of these lines, with the modules at hand that hostile code wants. */
export const hostileHandler = (...body: string[]): string =>
  [imports, 'def handler(payload, sdk):', ...body.map((line) => `  ${line}`)].join('\n');

/** The same project and function afterwards, another function, and nothing of the run left. */
export const survives = async (t: ExecutionContext, runtime: Runtime): Promise<void> => {
  const poll =
    'return [payload, os.listdir("/tmp") == [os.path.basename(os.getcwd())], len(list(filter(str.isdigit, os.listdir("/proc"))))]';
  t.deepEqual(await resultOf(t, runtime, hostileHandler(poll), { payload: '"well"' }), ['well', true, 3]);
};

/** Runs something and samples the largest guest's memory meanwhile, closer than the watchdog does. */
export const peakDuring = async (
  work: () => Promise<RunOutcome>,
): Promise<{ outcome: RunOutcome; peakMib: number }> => {
  let peakMib = 0;
  const timer = setInterval(() => {
    peakMib = Math.max(peakMib, ...pythonGuests().map((pid) => anonymousKib(pid) / 1024));
  }, 5);
  const outcome = await work();
  clearInterval(timer);
  return { outcome, peakMib };
};
