import { type ErrorCode, ServiceError, errorStatus } from '#lib/errors.ts';
import type { JobEnd } from './endpoint.ts';

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorStatus, code);

/**
 * The invoke answer of a run, as JSON text.
 * @throws {ServiceError} when its job never came to run
 */
export const runAnswer = ({ outcome: { result, error } }: JobEnd): string => {
  if (result !== null) return result;
  if (error !== null && isErrorCode(error.code)) throw new ServiceError(error.code, error.message);
  throw new ServiceError('internal', 'The function could not be run.');
};
