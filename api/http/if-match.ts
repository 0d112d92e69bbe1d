import { ServiceError } from '#lib/errors.ts';
import type { BaseCall } from '../call.ts';

/** The version that the header If-Match names; null: any. @throws {ServiceError} `validation_failed` */
export const expectedOf = ({ ifMatch }: Pick<BaseCall, 'ifMatch'>): number | null => {
  if (ifMatch === undefined || ifMatch.trim() === '*') return null;
  const [, version] = /^\s*(?:W\/)?"(\d{1,15})"\s*$/.exec(ifMatch) ?? [];
  if (version !== undefined) return Number(version);
  throw new ServiceError('validation_failed', 'The header If-Match is not valid.', {
    details: [{ path: 'If-Match', message: 'must be a version in quotes, such as "3"' }],
  });
};
