import { AuthError } from '#domain/end-users/errors.ts';
import { OAuthError } from '#domain/oauth/errors.ts';
import type { ErrorCode, ServiceError } from '#lib/errors.ts';

/** The codes of RFC 6749 for failures that every endpoint may have. */
const codeOf: Partial<Readonly<Record<ErrorCode, string>>> = {
  internal: 'server_error',
  not_found: 'invalid_request',
  forbidden: 'access_denied',
};

const statusCode = (status: number): string =>
  status === 429 || status >= 500 ? 'temporarily_unavailable' : 'invalid_request';

const nameOf = (error: OAuthError | AuthError | ServiceError): string => {
  if (error instanceof OAuthError) return error.code;
  // The user may not sign in, or the project's own code refused it.
  if (error instanceof AuthError) return 'access_denied';
  return codeOf[error.code] ?? statusCode(error.status);
};

/** An error as clients of the OpenID provider read it. */
export const oauthErrorBody = (
  error: OAuthError | AuthError | ServiceError,
  requestId: string,
): Record<string, unknown> => ({
  error: nameOf(error),
  error_description: error.message,
  request_id: requestId,
});
