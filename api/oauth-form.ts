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

/** An error as clients of the OpenID provider read it. */
export const oauthErrorBody = (error: OAuthError | ServiceError, requestId: string): Record<string, unknown> => ({
  error: error instanceof OAuthError ? error.code : (codeOf[error.code] ?? statusCode(error.status)),
  error_description: error.message,
  request_id: requestId,
});
