import { ServiceError } from '#lib/errors.ts';
import type { Allowed, Reason, Verdict } from './verdict.ts';

/** `details` are the reasons, each with its rule, message and place. */
export const notAllowed = (reasons: readonly Reason[]): ServiceError =>
  new ServiceError('sql_not_allowed', reasons[0]?.message ?? 'The statement is not allowed.', {
    details: reasons,
    hint: 'docs/security/generated-sql.md tells what is allowed, and why.',
  });

/** @throws {ServiceError} `sql_not_allowed` */
export const requireAllowed = (verdict: Verdict): Allowed => {
  if (!verdict.allowed) throw notAllowed(verdict.reasons);
  return verdict;
};
