import { nextMonth } from '#domain/ai/usage/call-log.ts';
import { DataError } from '#domain/data-api/errors.ts';
import { type ErrorCode, ServiceError, isErrorCode } from '#lib/errors.ts';
import type { JobError } from '#queues/define.ts';

/** The errors of jobs that did not end by themselves. */
const endings: Readonly<Record<string, ErrorCode>> = {
  cancelled: 'conflict',
  timeout: 'provider_timeout',
  crashed: 'dependency_unavailable',
};

/**
 * Returns the caller's error for a failed job that calls models.
 * @param error null: it ended without a word
 */
export const aiJobFailure = (error: JobError | null, details: unknown = null): ServiceError | DataError => {
  const { code, message } = error ?? { code: 'internal', message: 'The job failed on our side.' };
  const known = endings[code] ?? code;
  // A job stores code and message; the time at which a budget resets is known without it.
  const headers = known === 'budget_exceeded' ? { 'Retry-After': String(nextMonth().inSeconds) } : {};
  if (isErrorCode(known)) return new ServiceError(known, message, { details, headers });
  // A rule of the project's own database, by its SQLSTATE.
  return new DataError(400, code, message, { details });
};

/**
 * Returns the caller's error for a failed job of the platform's own.
 * @param error null: it ended without a word
 */
export const jobFailure = (error: JobError | null): ServiceError => {
  const { code, message } = error ?? { code: 'internal', message: 'The job failed on our side.' };
  const known = endings[code] ?? code;
  return new ServiceError(isErrorCode(known) ? known : 'internal', message);
};
