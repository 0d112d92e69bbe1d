import { loopLagged } from './loop-lag.ts';
/**
 * Every failure that a caller can see. The code is the stable contract, the message is for people.
 * The only place where a code and its HTTP status meet; the OpenAPI page lists them from here.
 */
export const errorStatus = {
  invalid_json: 400,
  validation_failed: 400,
  import_not_bundled: 400,
  egress_refused: 400,
  secret_required: 400,
  model_ambiguous: 400,
  not_supported: 400,
  price_unknown: 400,
  provider_rejected: 400,
  context_length_exceeded: 400,
  dimension_mismatch: 400,
  approval_required: 400,
  sql_not_allowed: 400,
  invalid_filter: 400,
  invalid_key: 400,
  policy_failed: 400,
  authorization_pending: 400,
  slow_down: 400,
  expired_token: 400,
  access_denied: 400,
  invalid_signature: 401,
  unauthenticated: 401,
  invalid_credentials: 401,
  factor_required: 401,
  forbidden: 403,
  origin_refused: 403,
  plan_limit_exceeded: 403,
  not_found: 404,
  model_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  migration_changed: 409,
  email_taken: 409,
  slug_taken: 409,
  already_member: 409,
  last_owner: 409,
  project_not_ready: 409,
  provider_not_configured: 409,
  smtp_not_configured: 409,
  expired: 410,
  precondition_failed: 412,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  idempotency_mismatch: 422,
  too_many_dimensions: 422,
  provider_auth_failed: 424,
  monthly_cap_exceeded: 429,
  job_loop: 429,
  queue_full: 429,
  rate_limited: 429,
  provider_rate_limited: 429,
  too_many_calls: 429,
  budget_exceeded: 429,
  headers_too_large: 431,
  internal: 500,
  function_error: 500,
  resource_limit: 500,
  provision_failed: 500,
  feature_unavailable: 501,
  vector_extension_unavailable: 501,
  mail_failed: 502,
  mail_rejected: 502,
  mail_unknown: 502,
  provider_unavailable: 502,
  provider_bad_output: 502,
  dependency_unavailable: 503,
  overloaded: 503,
  function_timeout: 504,
  provider_timeout: 504,
  storage_full: 507,
} as const satisfies Record<string, number>;

export type ErrorCode = keyof typeof errorStatus;

export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorStatus, code);

export interface ErrorExtras {
  /** Machine-readable particulars, e.g. `[{path, message}]` for `validation_failed`. Never holds a secret. */
  readonly details?: unknown;
  /** The caller's remedy. */
  readonly hint?: string;
  /** Response headers that belong to the failure, e.g. `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** Something was refused, and nothing else is wrong: what the work had in its hands is as it was. */
export class Refusal extends Error {}

/** An expected failure. Anything else that is thrown is a fault of ours: logged whole and answered as `internal`. */
export class ServiceError extends Refusal {
  override readonly name = 'ServiceError';
  readonly code: ErrorCode;
  readonly details: unknown;
  readonly hint: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, { cause: extras.cause });
    this.code = code;
    this.details = extras.details ?? null;
    this.hint = extras.hint ?? null;
    this.headers = extras.headers ?? {};
  }

  get status(): number {
    return errorStatus[this.code];
  }
}

/** A 404 that reads the same for what does not exist and for what is not the caller's. */
export const notFound = (what: string): ServiceError => new ServiceError('not_found', `No such ${what}.`);

const connectionErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EPIPE',
  'ETIMEDOUT',
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
  '57014', // query_canceled: by our own statement_timeout
  '40001', // serialization_failure
  '40P01', // deadlock_detected: the other one went on
  '25006', // read_only_sql_transaction: a primary that was demoted
]);

// connection_exception and insufficient_resources (too many connections, disk full, out of memory).
const connectionClasses = /^(08|53)[\dA-Z]{3}$/;

// Messages of pg, its pool and ioredis that have no code, and of a Redis that cannot take commands.
const connectionMessages =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|Connection is closed|Command timed out|Stream isn't writeable|Cannot use a pool after calling end|Reached the max retries|(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MISCONF|OOM) )/;

const field = (error: unknown, name: string): string => {
  if (typeof error !== 'object' || error === null) return '';
  const value: unknown = Reflect.get(error, name);
  return typeof value === 'string' ? value : '';
};

/** Whether a thrown value says that Postgres or Redis cannot serve just now (as opposed to a fault of ours). */
export const isDependencyFailure = (error: unknown): boolean => {
  if (error instanceof AggregateError) return error.errors.some(isDependencyFailure);
  const code = field(error, 'code');
  // A Unix socket that is not there, not a file that is missing.
  if (code === 'ENOENT') return field(error, 'syscall') === 'connect';
  return connectionErrors.has(code) || connectionClasses.test(code) || connectionMessages.test(field(error, 'message'));
};

/** Whether a thrown value says that a statement took longer than it may: a smaller one may do. */
export const isTooSlow = (error: unknown): boolean => field(error, 'code') === '57014';

const waitedInVain =
  /^(timeout exceeded when trying to connect|timeout expired|Query read timeout|Command timed out|Connection terminated due to connection timeout)/;

/**
 * Whether a failure says that something is slow, and not that it is down: the pool had no connection to give, a
 * statement was stopped by its time-out, or a time-out passed while this process's own event loop lagged.
 */
const isOverload = (error: unknown, lagged: () => boolean): boolean => {
  const message = field(error, 'message');
  if (isTooSlow(error) || message.startsWith('timeout exceeded when trying to connect')) return true;
  return waitedInVain.test(message) && lagged();
};

/**
 * Returns the error that a caller may see for any thrown value.
 * @param lagged whether this process was too slow itself
 */
export const toServiceError = (error: unknown, lagged: () => boolean = loopLagged): ServiceError => {
  if (error instanceof ServiceError) return error;
  if (isOverload(error, lagged)) {
    return new ServiceError('overloaded', 'The platform is busy and could not do this in time. Try again shortly.', {
      headers: { 'Retry-After': '2' },
      cause: error,
    });
  }
  if (isDependencyFailure(error)) {
    return new ServiceError('dependency_unavailable', 'A service that this request needs is down. Try again shortly.', {
      headers: { 'Retry-After': '2' },
      cause: error,
    });
  }
  return new ServiceError('internal', 'Something went wrong on our side. The request id leads us to it.', {
    cause: error,
  });
};
