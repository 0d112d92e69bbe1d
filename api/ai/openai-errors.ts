import type { ErrorCode, ServiceError } from '#lib/errors.ts';

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  424: 'provider_error',
  429: 'rate_limit_error',
};

const typeOf = ({ status }: ServiceError): string =>
  types[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');

interface Issue {
  readonly path: string;
  readonly message: string;
}

const firstIssue = ({ code, details }: ServiceError): Issue | undefined =>
  code === 'validation_failed' && Array.isArray(details) ? (details as Issue[])[0] : undefined;

/** `messages.0.role` as OpenAI writes it: `messages[0].role`. */
const bracketed = (path: string): string => path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]');

const ofModel: ReadonlySet<ErrorCode> = new Set(['model_not_found', 'model_ambiguous', 'provider_not_configured']);

const messageOf = (error: ServiceError, issue: Issue | undefined): string => {
  if (issue) return `${error.message} ${bracketed(issue.path)}: ${issue.message}`;
  return error.hint === null ? error.message : `${error.message} ${error.hint}`;
};

/** A failure as OpenAI's clients read it: one line of text has to say all of it. */
export const openAiErrorBody = (
  error: ServiceError,
): { error: { message: string; type: string; code: string; param: string | null } } => {
  const issue = firstIssue(error);
  const param = ofModel.has(error.code) ? 'model' : null;
  return {
    error: {
      message: messageOf(error, issue),
      type: typeOf(error),
      code: error.code,
      param: issue === undefined ? param : bracketed(issue.path) || null,
    },
  };
};

// OpenAI's clients retry after any 409, 429 and 5xx unless a header says that it is futile.
const inVain: ReadonlySet<ErrorCode> = new Set([
  'provider_not_configured',
  'project_not_ready',
  'budget_exceeded',
  'feature_unavailable',
  'provider_bad_output',
]);

export const openAiErrorHeaders = ({ code }: ServiceError): Record<string, string> =>
  inVain.has(code) ? { 'X-Should-Retry': 'false' } : {};
