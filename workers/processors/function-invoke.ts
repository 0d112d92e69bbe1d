import { type FinishedRun, invokeAnswer } from '#domain/functions/answer.ts';
import type { LoadRunnable } from '#domain/functions/functions.ts';
import type { Language } from '#domain/functions/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { functionInvoke } from '#queues/function-invoke.ts';
import type { Processor } from '../processor.ts';
import type { LogLine, RunServices, Runtime } from '../runtimes/runtime.ts';

export interface FunctionInvokeDeps {
  readonly load: LoadRunnable;
  /** The languages that this worker can run. */
  readonly runtimes: Readonly<Partial<Record<Language, Pick<Runtime, 'run'>>>>;
  readonly services: OpenServices;
}

/** What one run may reach; opened before it, closed after it. */
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
const outcomeOf = (jobId: string, run: FinishedRun): JobOutcome => {
  const result = invokeAnswer(jobId, run);
  if (run.status === 'success') return { status: 'succeeded', result, error: null };
  return { status: 'failed', result, error: { code: run.status, message: run.error?.message ?? reasons[run.status] } };
};

const crashed: FinishedRun = { status: 'crashed', result: null, durationMs: 0, error: null, logs: [] };

/** Runs one version of a function in the sandbox. */
export const functionInvokeProcessor = ({ load, runtimes, services: openServices }: FunctionInvokeDeps): Processor => ({
  run: async (data, { jobId, projectId, signal, log }) => {
    const { function_id: functionId, version, payload } = data as JobData<typeof functionInvoke>;
    const fn = await load(functionId, version);
    if (fn === undefined) throw new ServiceError('not_found', 'The function was deleted before it ran.');
    const { compiled: code, language, ...limits } = fn;
    const runtime = runtimes[language];
    if (runtime === undefined) throw notHere(language);
    const onLog = (line: LogLine): void => log(line.level, line.message);
    const request = { projectId, functionId, version, code, payload, ...limits };
    const services = openServices({ projectId, timeoutMs: fn.timeoutMs, signal });
    const run = await runtime.run(request, { signal, onLog, services });
    await services.close();
    if (run.status === 'crashed' && !run.started) {
      throw new Error('no process for a function could be started');
    }
    return outcomeOf(jobId, { ...run, durationMs: Math.round(run.durationMs * 100) / 100 });
  },
  giveUp: async ({ code }, { jobId }) => (code === 'crashed' ? invokeAnswer(jobId, crashed) : null),
});
