import { readFileSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import { type JavascriptOptions, createJavascriptRuntime } from '#workers/runtimes/javascript/index.ts';
import { processTree } from '#workers/runtimes/processes.ts';
import type { RunOptions, RunOutcome, RunRequest, Runtime } from '#workers/runtimes/runtime.ts';
import { openSandbox } from '#workers/runtimes/sandbox.ts';

export const bwrapPath = process.env['PLINTH_BWRAP'] || undefined;

/** The sandbox level of this machine: strict where there are namespaces. */
export const sandbox = await openSandbox({ level: undefined, local: true, bwrapPath });

export const silentLog = { warn: () => undefined, error: () => undefined };

export const openRuntime = (options: Partial<JavascriptOptions> = {}): Promise<Runtime> =>
  createJavascriptRuntime({ sandbox, maxRunners: 4, spares: 1, log: silentLog, ...options });

let functions = 0;

/** A request for a function that no runner has seen. */
export function request(code: string, changes: Partial<RunRequest> = {}): RunRequest {
  functions += 1;
  return {
    projectId: 'project-a',
    functionId: `function-${functions}`,
    version: 1,
    code,
    entryPoint: 'handler',
    payload: 'null',
    caller: null,
    env: {},
    timeoutMs: 10_000,
    memoryMib: 128,
    ...changes,
  };
}

/** Runs code once and expects it to succeed. */
export async function resultOf(
  t: ExecutionContext,
  runtime: Runtime,
  code: string,
  changes: Partial<RunRequest> = {},
): Promise<unknown> {
  const outcome = await runtime.run(request(code, changes));
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return JSON.parse(outcome.result ?? 'null');
}

export const run = (
  runtime: Runtime,
  code: string,
  changes: Partial<RunRequest> = {},
  options: RunOptions = {},
): Promise<RunOutcome> => runtime.run(request(code, changes), options);

/** Processes of guests that this test process has started and that are alive. */
export const guests = (): number[] =>
  processTree(process.pid).filter((pid) => /guest\/main\.(cjs|py)/.test(commandLine(pid)));

/** Empty when the process is gone. */
export function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
}
