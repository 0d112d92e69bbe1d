import { AuthError, type AuthErrorCode } from '#domain/end-users/errors.ts';
import type { ErrorCode, ServiceError } from '#lib/errors.ts';

/** The codes that supabase-js reads for failures that every endpoint may have. */
const codeOf: Partial<Readonly<Record<ErrorCode, AuthErrorCode>>> = {
  invalid_json: 'bad_json',
  validation_failed: 'validation_failed',
  unauthenticated: 'no_authorization',
  forbidden: 'not_admin',
  rate_limited: 'over_request_rate_limit',
  conflict: 'conflict',
  plan_limit_exceeded: 'conflict',
  request_timeout: 'request_timeout',
};

/** From this version on, supabase-js reads `code`; the header says that the answer is of it. */
const apiVersion = { 'X-Supabase-Api-Version': '2024-01-01' };

export const authErrorHeaders: Readonly<Record<string, string>> = apiVersion;

const firstDetail = ({ details }: ServiceError): string => {
  const [first] = Array.isArray(details) ? (details as { path?: unknown; message?: unknown }[]) : [];
  return first === undefined ? '' : ` ${String(first.path)} ${String(first.message)}.`;
};

/**
 * An error as supabase-js reads it: newer versions read `code` and `message`, older ones `error_code` and `msg`, and
 * people the whole of it.
 */
export const authErrorBody = (error: AuthError | ServiceError, requestId: string): Record<string, unknown> => {
  const isOwn = error instanceof AuthError;
  const code = isOwn ? error.code : (codeOf[error.code] ?? 'unexpected_failure');
  const message = isOwn ? error.message : error.message + firstDetail(error);
  return {
    code,
    error_code: code,
    msg: message,
    message,
    hint: error.hint,
    request_id: requestId,
    ...(isOwn && error.weakness !== undefined && { weak_password: { reasons: [error.weakness] } }),
  };
};
