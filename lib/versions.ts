import { ServiceError } from './errors.ts';

/**
 * Refuses a change that is meant for another version: what somebody else has written meanwhile stays.
 * @param changed a sentence without its stop, such as "The flag has changed"
 * @param expected null: any version
 * @throws {ServiceError} `precondition_failed`
 */
export const requireVersion = (changed: string, version: number, expected: number | null): void => {
  if (expected === null || version === expected) return;
  throw new ServiceError('precondition_failed', `${changed}: the version is ${version}, not ${expected}.`, {
    hint: 'Read it again, and send If-Match with the present version.',
  });
};
