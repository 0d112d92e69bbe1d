/*
 * Lines of a project's log that are made of rows: what became of a mail, how a call of a model ended, and requests that
 * failed. The same functions make the lines that are searched and those that are sent to who listens.
 */
import type { CallStatus } from '#domain/ai/usage/usage.ts';
import type { LogLevel } from '#domain/jobs/logs.ts';
import type { LineSource, ProjectLine } from '#queues/signals.ts';

/** The mail that a line is about. */
export interface MailRow {
  readonly id: string;
  readonly created_at: Date | string;
  readonly template: string;
  readonly recipient: string;
  readonly status: string;
  readonly attempts: number;
  readonly response: string | null;
  readonly error: string | null;
  readonly request_id: string | null;
}

/** The call of a model that a line is about. */
export interface CallRow {
  readonly id: string;
  readonly created_at: Date | string;
  readonly kind: string;
  readonly provider: string;
  readonly model: string;
  readonly status: CallStatus;
  readonly latency_ms: number | null;
  readonly retries: number | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly request_id: string;
}

/** A line about a request, as it is stored. */
export interface RequestRow {
  readonly id: string;
  readonly created_at: Date | string;
  readonly source: LineSource;
  readonly level: LogLevel;
  readonly message: string;
  /** JSON text. */
  readonly fields: string;
  readonly request_id: string | null;
}

/** The level of a line about a mail, by its status. */
export const mailLevels: Readonly<Record<string, LogLevel>> = {
  queued: 'debug',
  sent: 'info',
  kept: 'warn',
  bounced: 'error',
  unknown: 'error',
  failed: 'error',
};

/** The level of a line about a call of a model, by its status; calls that are under way are no lines. */
export const callLevels: Readonly<Record<CallStatus, LogLevel>> = {
  success: 'info',
  client_closed: 'warn',
  incomplete: 'error',
  error: 'error',
};

const timeOf = (at: Date | string): string => new Date(at).toISOString();

const words = (...parts: readonly (string | null)[]): string => parts.filter((part) => part !== null).join(': ');

export const mailLine = ({ template, recipient, status, attempts, response, error, ...row }: MailRow): ProjectLine => ({
  id: row.id,
  ts: timeOf(row.created_at),
  level: mailLevels[status] ?? 'info',
  source: 'mail',
  message: words(`${template} to ${recipient} ${status}`, error),
  fields: { attempts, ...(response !== null && { response }) },
  request_id: row.request_id,
  email_id: row.id,
});

export const callLine = ({ kind, provider, model, status, ...row }: CallRow): ProjectLine => ({
  id: row.id,
  ts: timeOf(row.created_at),
  level: callLevels[status],
  source: 'ai',
  message: words(`${kind} by ${provider}/${model} ${status}`, row.error_message),
  fields: {
    latency_ms: row.latency_ms,
    ...(row.error_code !== null && { code: row.error_code }),
    ...((row.retries ?? 0) > 0 && { retries: row.retries }),
  },
  request_id: row.request_id,
  ai_call_id: row.id,
});

export const requestLine = ({ id, created_at: at, fields, ...row }: RequestRow): ProjectLine => ({
  id,
  ts: timeOf(at),
  level: row.level,
  source: row.source,
  message: row.message,
  fields: JSON.parse(fields) as Record<string, unknown>,
  request_id: row.request_id,
});
