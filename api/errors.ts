import type { Context } from 'koa';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { type ErrorCode, ServiceError, toServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { AuthError, type AuthErrorCode } from '#domain/end-users/errors.ts';
import { OAuthError } from '#domain/oauth/errors.ts';
import { oauthErrorBody } from './oauth-form.ts';
import { authErrorBody, authErrorHeaders } from './auth-form.ts';
import { openAiErrorBody, openAiErrorHeaders } from './ai/openai-form.ts';
import type { ErrorForm } from './endpoint.ts';
import { ofrepErrorBody } from './ofrep-form.ts';
import { errorPage } from './pages/error-page.ts';
import { htmlType, pageHeaders } from './pages/html.ts';

/**
 * The caller's error for a unique index that refuses a row; the index decides, so that of 50 requests at once one wins.
 */
const constraintErrors: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  users_email_key: { code: 'email_taken', message: 'There is an account with this e-mail address already.' },
  projects_org_slug_key: { code: 'slug_taken', message: 'The organization has a project with this slug already.' },
  functions_project_slug_key: { code: 'slug_taken', message: 'The project has a function with this name already.' },
  members_org_email_key: { code: 'already_member', message: 'This address is a member or invited already.' },
  members_org_user_key: { code: 'already_member', message: 'You are a member of this organization already.' },
};

const known = (error: unknown): ServiceError => {
  const constraint: unknown = error instanceof Error ? Reflect.get(error, 'constraint') : undefined;
  const meaning = typeof constraint === 'string' ? constraintErrors[constraint] : undefined;
  return meaning ? new ServiceError(meaning.code, meaning.message) : toServiceError(error);
};

/** The one error body: flat, because PostgREST clients read `error.code`. */
export const errorBody = (
  error: Pick<ServiceError | DataError, 'code' | 'message' | 'details' | 'hint'>,
  requestId: string,
): Record<string, unknown> => ({
  code: error.code,
  message: error.message,
  details: error.details,
  hint: error.hint,
  request_id: requestId,
});

// Errors of user code are not ours to log, and may hold its secrets.
const userFaults: ReadonlySet<ErrorCode> = new Set(['function_error', 'function_timeout', 'resource_limit']);

const note = (log: Log, error: ServiceError, thrown: unknown): void => {
  if (userFaults.has(error.code)) return;
  if (error.code === 'internal') log.error({ err: thrown }, 'a request failed by a fault of ours');
  else if (error.status >= 500) log.warn({ err: thrown }, 'a request could not be served');
};

const sendError = (ctx: Context, error: ServiceError | DataError): void => {
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = JSON.stringify(errorBody(error, String(ctx.state['requestId'])));
};

/** As storage-js reads it: `statusCode` is text. */
const sendStorageError = (ctx: Context, error: ServiceError): void => {
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  const body = errorBody(error, String(ctx.state['requestId']));
  ctx.body = JSON.stringify({ statusCode: String(error.status), error: error.code, ...body });
};

/** RFC 8628, section 3.5, beside our own. */
const sendDeviceError = (ctx: Context, error: ServiceError): void => {
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = JSON.stringify({ error: error.code, ...errorBody(error, String(ctx.state['requestId'])) });
};

const sendOpenAiError = (ctx: Context, error: ServiceError): void => {
  ctx.set(openAiErrorHeaders(error));
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = JSON.stringify(openAiErrorBody(error));
};

/** Where the project's team administers users, the one error body has the codes of the whole platform. */
const teamCodes: Partial<Readonly<Record<AuthErrorCode, ErrorCode>>> = {
  conflict: 'conflict',
  email_exists: 'email_taken',
  mfa_factor_not_found: 'not_found',
  unexpected_failure: 'conflict',
  user_banned: 'conflict',
  user_not_found: 'not_found',
};

const forTeam = ({ code, message, hint }: AuthError): ServiceError =>
  new ServiceError(teamCodes[code] ?? 'validation_failed', message, hint === null ? {} : { hint });

const sendAuthError = (ctx: Context, error: AuthError | ServiceError): void => {
  ctx.set(authErrorHeaders);
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = JSON.stringify(authErrorBody(error, String(ctx.state['requestId'])));
};

/** RFC 6749, section 5.2. */
const sendOAuthError = (ctx: Context, error: OAuthError | AuthError | ServiceError): void => {
  ctx.status = error instanceof AuthError && error.status < 500 ? 400 : error.status;
  ctx.type = 'application/json; charset=utf-8';
  if (error.code === 'invalid_client') ctx.set('WWW-Authenticate', 'Basic realm="plinth"');
  ctx.body = JSON.stringify(oauthErrorBody(error, String(ctx.state['requestId'])));
};

/** The protocol has a form of its own. */
const sendOfrepError = (ctx: Context, error: ServiceError): void => {
  ctx.status = error.status;
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = JSON.stringify(ofrepErrorBody(error, ctx.path, String(ctx.state['requestId'])));
};

const sendErrorPage = (ctx: Context, error: ServiceError): void => {
  ctx.set(pageHeaders);
  ctx.status = error.status;
  ctx.type = htmlType;
  ctx.body = errorPage(error);
};

/** In the form of the endpoint. */
const sendAuthErrorAs = (ctx: Context, error: AuthError): void => {
  const form = ctx.state['errorForm'] as ErrorForm | undefined;
  if (form === 'auth') sendAuthError(ctx, error);
  else if (form === 'oauth') sendOAuthError(ctx, error);
  else if (form === 'page') sendErrorPage(ctx, forTeam(error));
  else sendError(ctx, forTeam(error));
};

/** Returns the caller's error for a thrown value, which is logged where it is a fault of ours or of a dependency. */
export const explain = (thrown: unknown, log: Log): ServiceError => {
  const error = known(thrown);
  note(log, error, thrown);
  return error;
};

/** The status that logs show of a request whose client did not wait; nobody receives it. */
export const clientClosedRequest = 499;

/** Each surface writes failures in the form that its clients read. */
const senders: Readonly<Record<ErrorForm, (ctx: Context, error: ServiceError) => void>> = {
  plinth: sendError,
  openai: sendOpenAiError,
  auth: sendAuthError,
  oauth: sendOAuthError,
  ofrep: sendOfrepError,
  storage: sendStorageError,
  device: sendDeviceError,
  page: sendErrorPage,
};

/** Keeps the error for the line that the log of the project gets. */
const noteFailure = (ctx: Context, { code, message }: { readonly code: string; readonly message: string }): void => {
  ctx.state['failure'] = { code, message };
};

/** Maps a thrown value to the answer that the contract names. */
export const answerError = (ctx: Context, thrown: unknown, log: Log): void => {
  if (thrown instanceof CallerGone) {
    ctx.status = clientClosedRequest;
    return;
  }
  if (thrown instanceof DataError || thrown instanceof AuthError || thrown instanceof OAuthError)
    noteFailure(ctx, thrown);
  if (thrown instanceof DataError) {
    if (thrown.status >= 500) log.warn({ err: thrown }, 'a request of the data API could not be served');
    ctx.set(thrown.headers);
    return sendError(ctx, thrown);
  }
  if (thrown instanceof AuthError) {
    ctx.set(thrown.headers);
    return sendAuthErrorAs(ctx, thrown);
  }
  if (thrown instanceof OAuthError) return sendOAuthError(ctx, thrown);
  const error = explain(thrown, log);
  noteFailure(ctx, error);
  if (error.status === 401) ctx.set('WWW-Authenticate', 'Bearer realm="plinth"');
  ctx.set(error.headers);
  senders[(ctx.state['errorForm'] as ErrorForm | undefined) ?? 'plinth'](ctx, error);
};
