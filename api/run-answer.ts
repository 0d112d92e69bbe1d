import { invokeAnswer } from '#domain/functions/run-report.ts';
import { ServiceError, isErrorCode } from '#lib/errors.ts';
import { type RunStatus, runStatuses } from '#queues/function-invoke.ts';
import type { JobEnd } from './endpoint.ts';

const ends: ReadonlySet<string> = new Set<RunStatus>(runStatuses);
const isRunStatus = (code: string): code is RunStatus => ends.has(code);

/** The answer for a failure of the job, in the form that the sandbox uses for its own. */
const errorNames: Readonly<Partial<Record<RunStatus, string>>> = { cancelled: 'AbortError', timeout: 'TimeoutError' };

/** The answer of a run that was ended from outside: before it started, or when no worker could report more of it. */
const answerOfEnd = (jobId: string, status: RunStatus, message: string): string => {
  const error = { name: errorNames[status] ?? 'Error', message, stack: '' };
  return invokeAnswer(jobId, { status, result: null, durationMs: 0, error, logs: [] });
};

/**
 * The invoke answer of a run, as JSON text.
 * @throws {ServiceError} when its job never came to run, unless it was cancelled
 */
export const runAnswer = ({ jobId, outcome: { result, error } }: Pick<JobEnd, 'jobId' | 'outcome'>): string => {
  if (result !== null) return result;
  if (error !== null && isRunStatus(error.code)) return answerOfEnd(jobId, error.code, error.message);
  if (error !== null && isErrorCode(error.code)) throw new ServiceError(error.code, error.message);
  throw new ServiceError('internal', 'The function could not be run.');
};
