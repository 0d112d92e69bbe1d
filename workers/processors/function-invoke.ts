import {
  type FinishedRun,
  type ReportedRun,
  invokeAnswer,
  logsTextOf,
  reportOf,
} from '#domain/functions/run-report.ts';
import type { LoadRunnable } from '#domain/functions/functions.ts';
import type { Language } from '#domain/functions/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { SandboxFacts, functionInvoke } from '#queues/function-invoke.ts';
import { type LogAllowance, createLogAllowance } from '../log-allowance.ts';
import type { Processor } from '../processor.ts';
import type { LogLine, RunServices, Runtime } from '../runtimes/runtime.ts';

export type Runtimes = Readonly<Partial<Record<Language, Pick<Runtime, 'run' | 'level'>>>>;

export interface FunctionInvokeDeps {
  readonly load: LoadRunnable;
  /** The languages that this worker can run. */
  readonly runtimes: Runtimes;
  readonly services: OpenServices;
  /** The worker's usual one when it is left out. */
  readonly logAllowance?: LogAllowance;
}

/** The services of one run; opened before it, closed after it. */
export type OpenServices = (run: {
  readonly projectId: string;
  /** From now on; a statement or request may take no longer than what is left. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}) => RunServices;

const notHere = (language: Language): ServiceError =>
  new ServiceError('feature_unavailable', `Functions in ${language} are not available on this installation.`);

const reasons = {
  error: 'The function threw an error.',
  timeout: 'The function did not end within its time-out.',
  memory_limit: 'The function used more memory than it may.',
  cpu_limit: 'The function used more CPU time than it may.',
  result_too_large: 'The function returned more than 1 MB.',
  crashed: 'The function ended without an answer.',
  cancelled: 'The run was cancelled.',
} as const satisfies Record<Exclude<FinishedRun['status'], 'success'>, string>;

/** The job fails with the status of the run as its code; the whole answer is its result either way. */
const outcomeOf = (jobId: string, run: ReportedRun, logsText: string): JobOutcome => {
  const [result, report] = [invokeAnswer(jobId, run, logsText), reportOf(run, logsText)];
  if (run.status === 'success') return { status: 'succeeded', result, error: null, report };
  const error = { code: run.status, message: run.error?.message ?? reasons[run.status] };
  return { status: 'failed', result, error, report };
};

const crashed: FinishedRun = { status: 'crashed', result: null, durationMs: 0, error: null, logs: [] };

const levelsOf = (runtimes: Runtimes): SandboxFacts =>
  Object.fromEntries(Object.entries(runtimes).map(([language, { level }]) => [language, level]));

/** Resources of a run are released whatever its outcome. */
const withServices = async <T>(services: RunServices, work: (services: RunServices) => Promise<T>): Promise<T> => {
  try {
    return await work(services);
  } finally {
    await services.close();
  }
};

/** Runs one version of a function in the sandbox. */
export const functionInvokeProcessor = (deps: FunctionInvokeDeps): Processor => {
  const { load, runtimes, services: openServices, logAllowance = createLogAllowance() } = deps;
  return {
    sandbox: levelsOf(runtimes),
    run: async (data, { jobId, projectId, signal, log }) => {
      const { function_id: functionId, version, payload, ...by } = data as JobData<typeof functionInvoke>;
      const fn = await load(functionId, version);
      if (fn === undefined) throw new ServiceError('not_found', 'The function was deleted before it ran.');
      const { compiled: code, language, ...limits } = fn;
      const runtime = runtimes[language];
      if (runtime === undefined) throw notHere(language);
      const onLog = (line: LogLine): void => log(line.level, line.message, line.ts);
      const caller = JSON.stringify(by.caller ?? { kind: by.trigger, key_id: null, user: null });
      const request = { projectId, functionId, version, code, payload, caller, ...limits };
      const noteLog = await logAllowance.begin(projectId, signal);
      const run = await withServices(openServices({ projectId, timeoutMs: fn.timeoutMs, signal }), (services) =>
        runtime.run(request, { signal, onLog, services }),
      );
      if (run.status === 'crashed' && !run.started) {
        throw new Error('no process for a function could be started');
      }
      const logsText = logsTextOf(run);
      noteLog(logsText.length);
      return outcomeOf(jobId, { ...run, durationMs: Math.round(run.durationMs * 100) / 100 }, logsText);
    },
    giveUp: async ({ code }, { jobId }) => (code === 'crashed' ? invokeAnswer(jobId, crashed) : null),
  };
};
