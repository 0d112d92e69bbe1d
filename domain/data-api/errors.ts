import { Refusal } from '#lib/errors.ts';

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
