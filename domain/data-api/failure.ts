import { DatabaseError } from 'pg';
import { withoutDatabaseName } from '#domain/database-servers/names.ts';
import type { DataCaller } from './db.ts';
import { retryOnBacklog } from '#domain/database-servers/limits.ts';
import { DataError, statusOfSqlState } from './errors.ts';

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
