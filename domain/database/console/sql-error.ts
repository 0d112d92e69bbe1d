import type { DatabaseError } from 'pg';
import { DataError } from '#domain/data-api/errors.ts';
import { breaksBefore, codePointsOf, unitsOf } from '#lib/code-points.ts';
import { ServiceError } from '#lib/errors.ts';
import { retryOnBacklog } from '#domain/database-servers/limits.ts';
import { withoutDatabaseName } from '#domain/database-servers/names.ts';

const maxTextLength = 8192;

const cut = (message: string): string => {
  const text = withoutDatabaseName(message);
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text;
};

/** Line and column of a position, all of them in characters from 1 on, as the server counts. */
const placeOf = (sql: string, position: number): { position: number; line: number; column: number } => {
  const end = unitsOf(sql, position - 1);
  const lineStart = end === 0 ? 0 : sql.lastIndexOf('\n', end - 1) + 1;
  return { position, line: breaksBefore(sql, end) + 1, column: codePointsOf(sql.slice(lineStart, end)) + 1 };
};

const named = {
  detail: 'detail',
  schema: 'schema',
  table: 'table',
  column: 'column_name',
  dataType: 'data_type',
  constraint: 'constraint',
  where: 'context',
} as const satisfies Partial<Record<keyof DatabaseError, string>>;

/** The server's details beyond the message; errors within the platform's own triggers and functions stay inside. */
const particularsOf = (error: DatabaseError): Record<string, string> =>
  Object.fromEntries(
    Object.entries(named).flatMap(([field, name]) => {
      const value = error[field as keyof typeof named];
      return value === undefined || cut(value).includes('plinth') ? [] : [[name, cut(value)]];
    }),
  );

const refusals: Readonly<Record<string, readonly [status: number, code: string]>> = {
  event_backlog_full: [503, 'event_backlog_full'],
  event_too_large: [400, 'event_too_large'],
};

/** The platform's own refusals in project databases: the class says whose, the first word of the message which. */
const platformRefusal = (error: DatabaseError): DataError => {
  const [name = ''] = error.message.split(':', 1);
  const [status, code] = refusals[name] ?? [403, 'plan_limit_exceeded'];
  return new DataError(status, code, error.message.replace(`${code}: `, ''), {
    details: error.detail ?? null,
    hint: error.hint ?? null,
    headers: code === 'event_backlog_full' ? retryOnBacklog : {},
  });
};

const statusOf = (code: string): number => {
  if (code === '57014') return 504;
  return code.startsWith('57P') ? 503 : 400;
};

/**
 * An error of the server as the contract shows it: the SQLSTATE as code, 400 (504 for a time-out); a limit of the plan
 * as `plan_limit_exceeded`.
 * @param sql the text that the position counts in; left out when it is not the caller's own
 */
export const sqlError = (error: DatabaseError, sql?: string): DataError => {
  const code = error.code ?? 'XX000';
  if (code.startsWith('PL')) return platformRefusal(error);
  const position = Number(error.position);
  const details = {
    ...(sql !== undefined && position > 0 && placeOf(sql, position)),
    ...particularsOf(error),
  };
  return new DataError(statusOf(code), code, cut(error.message), {
    details: Object.keys(details).length > 0 ? details : null,
    hint: error.hint === undefined ? null : cut(error.hint),
  });
};

/** The message for a session that our watchdog ended; the server's own would be that of its shutdown. */
export const sessionEnded = 'The server ended the session: the statement took too much memory or time.';

export const connectionLost = (cause: unknown): ServiceError =>
  new ServiceError('dependency_unavailable', 'The connection to the database broke while the statement ran.', {
    hint: 'It is not known whether the statement took effect.',
    cause,
  });
