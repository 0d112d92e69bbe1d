import { Refusal } from '#lib/errors.ts';
import { DatabaseError } from 'pg';
import { withoutDatabaseName } from '#domain/database-servers/names.ts';
import type { DataCaller } from './data-api.ts';
import { retryOnBacklog } from '#domain/database-servers/limits.ts';

interface DataErrorExtras {
  readonly details?: unknown;
  readonly hint?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A failure on the data API, in PostgREST's words: `code` is a SQLSTATE or one of its own (`PGRST205`), or one of ours
 * where neither has one (`filter_required`).
 */
export class DataError extends Refusal {
  override readonly name = 'DataError';
  readonly status: number;
  readonly code: string;
  readonly details: unknown;
  readonly hint: string | null;
  /** Headers of the answer, e.g. `Content-Range`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, more: DataErrorExtras = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = more.details ?? null;
    this.hint = more.hint ?? null;
    this.headers = more.headers ?? {};
  }
}

/** The caller has left. No `Refusal`: the connection may still be cancelled, and is not lent again. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

/** PostgREST's own table of which SQLSTATE is which status. Source: its documentation, "HTTP status codes". */
const statusOf: Readonly<Record<string, number>> = {
  '23503': 409,
  '23505': 409,
  '25006': 405,
  '42883': 404,
  '42P01': 404,
  '42P17': 500,
  '53400': 500,
  '57014': 504,
  '57P01': 503,
  P0001: 400,
  '21000': 500,
};

const statusOfClass: Readonly<Record<string, number>> = {
  '08': 503,
  '09': 500,
  '0L': 403,
  '0P': 403,
  '25': 500,
  '28': 403,
  '2D': 500,
  '38': 500,
  '39': 500,
  '3B': 500,
  '40': 500,
  '53': 503,
  '54': 500,
  '55': 500,
  '57': 500,
  '58': 500,
  F0: 500,
  HV: 500,
  P0: 500,
  XX: 500,
};

/** The status for an error of the server. `PT4xx` (raised by functions) names its own. */
export const statusOfSqlState = (code: string): number => {
  const own = /^PT([45]\d\d)$/.exec(code)?.[1];
  if (own !== undefined) return Number(own);
  if (code === '42501') return 403;
  return statusOf[code] ?? statusOfClass[code.slice(0, 2)] ?? 400;
};

/**
 * An error that a function raised with SQLSTATE `PGRST`: an answer of its own, as JSON in message and detail
 * (PostgREST).
 */
const raised = ({ message, detail }: DatabaseError): DataError => {
  try {
    const parsed = JSON.parse(message) as { code?: unknown; message?: unknown; details?: unknown; hint?: unknown };
    const status = Number((JSON.parse(detail ?? '{}') as { status?: unknown }).status);
    const hint = typeof parsed.hint === 'string' ? parsed.hint : null;
    if (!Number.isInteger(status) || status < 400 || status > 599) throw new RangeError('no status of a failure');
    return new DataError(status, String(parsed.code), String(parsed.message), {
      details: parsed.details ?? null,
      hint,
    });
  } catch {
    return new DataError(500, 'PGRST121', 'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error', {
      hint: 'MESSAGE holds {"code","message","details","hint"}, DETAIL {"status"} of 400 to 599.',
    });
  }
};

const howToOpen = (table: string): string =>
  `Only a secret key may use it as it is. To open it: alter table ${table} enable row level security; and create policies ` +
  'that say who may do what.';

const deniedRelation = /^permission denied for (?:table|view|materialized view|foreign table|sequence) (.+)$/;

/** Hints for refusals that have none of the server's. */
const hintOf = ({ code, message, hint }: DatabaseError, { role }: DataCaller): string | null => {
  if (hint !== undefined) return withoutDatabaseName(hint);
  const table = code === '42501' && role !== 'service' ? deniedRelation.exec(message)?.[1] : undefined;
  if (table !== undefined) return howToOpen(table);
  return code === '25006' ? 'A function that writes is called with POST.' : null;
};

/** The platform's own refusals in project databases: what is raised by its triggers (migrations/project). */
const platformCodes: Readonly<Record<string, readonly [status: number, code: string]>> = {
  PLL01: [403, 'plan_limit_exceeded'],
  PLE01: [503, 'event_backlog_full'],
  PLE02: [400, 'event_too_large'],
  PLA01: [400, '54000'],
  PLA02: [429, 'idempotency_keys_full'],
};

const platformRefusal = ({ message, code = '', detail, hint }: DatabaseError): DataError | undefined => {
  const refusal = Object.hasOwn(platformCodes, code) ? platformCodes[code] : undefined;
  if (refusal === undefined) return undefined;
  const [status, name] = refusal;
  return new DataError(status, name, message.replace(`${name}: `, ''), {
    details: detail ?? null,
    hint: hint ?? null,
    headers: name === 'event_backlog_full' ? retryOnBacklog : {},
  });
};

/** The watchdog ends a session from outside; the server's words would be those of its own shutdown. */
const sessionEnded = (): DataError =>
  new DataError(
    statusOfSqlState('57P01'),
    '57P01',
    'The session was ended: its statement took too much memory or time.',
    {
      hint: 'Ask for less at once. If it asked for little, try again: the database may have been restarted.',
    },
  );

/**
 * Returns a server error in PostgREST's form: SQLSTATE, message, detail, hint. Any other value is returned as it is.
 * @param caller as whom it was asked
 */
export const toDataError = (error: unknown, caller: DataCaller): unknown => {
  if (!(error instanceof DatabaseError) || error.code === undefined) return error;
  if (error.code === '57P01' && error.severity === 'FATAL') return sessionEnded();
  if (error.severity !== 'ERROR') return error;
  if (error.code === 'PGRST') return raised(error);
  return (
    platformRefusal(error) ??
    new DataError(statusOfSqlState(error.code), error.code, withoutDatabaseName(error.message), {
      details: error.detail === undefined ? null : withoutDatabaseName(error.detail),
      hint: hintOf(error, caller),
    })
  );
};

// Unknown names, and statements that were prepared for tables which have changed since.
const staleStates = new Set([
  '42P01',
  '42703',
  '42883',
  '42P10',
  '42704',
  '0A000',
  '26000',
  'PGRST200',
  'PGRST201',
  'PGRST202',
  'PGRST203',
  'PGRST204',
  'PGRST205',
]);

/** Whether the reason may be that the schema, as it is known here, is not the database's any more. */
export const mayBeStale = (error: unknown): boolean =>
  (error instanceof DatabaseError || error instanceof DataError) && staleStates.has(error.code ?? '');
