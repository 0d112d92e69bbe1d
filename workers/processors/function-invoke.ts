import { type FinishedRun, invokeAnswer } from '#domain/functions/answer.ts';
import type { LoadRunnable } from '#domain/functions/functions.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { functionInvoke } from '#queues/function-invoke.ts';
import type { Processor } from '../processor.ts';
import type { LogLine, Runtime } from '../runtimes/runtime.ts';

export interface FunctionInvokeDeps {
  readonly load: LoadRunnable;
  readonly javascript: Pick<Runtime, 'run'>;
}

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
export const functionInvokeProcessor = ({ load, javascript }: FunctionInvokeDeps): Processor => ({
  run: async (data, { jobId, projectId, signal, log }) => {
    const { function_id: functionId, version, payload } = data as JobData<typeof functionInvoke>;
    const fn = await load(functionId, version);
    if (fn === undefined) throw new ServiceError('not_found', 'The function was deleted before it ran.');
    const { compiled: code, ...limits } = fn;
    const onLog = (line: LogLine): void => log(line.level, line.message);
    const request = { projectId, functionId, version, code, payload, ...limits };
    const run = await javascript.run(request, { signal, onLog });
    if (run.status === 'crashed' && !run.started) {
      throw new Error('no process for a function could be started');
    }
    return outcomeOf(jobId, { ...run, durationMs: Math.round(run.durationMs * 100) / 100 });
  },
  giveUp: async ({ code }, { jobId }) => (code === 'crashed' ? invokeAnswer(jobId, crashed) : null),
});
