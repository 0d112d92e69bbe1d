import { DatabaseError } from 'pg';
import { sessionEnded } from '#domain/database/console/sql-error.ts';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { CallFault } from '../../runtimes/runtime.ts';

const longest = 4096;
const reportedFields = ['code', 'detail', 'hint', 'constraint', 'schema', 'table', 'column'] as const;

const cut = (text: string): string => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

/** `DatabaseError` in user code, with the SQLSTATE that says the same. */
export const databaseFault = (code: string, message: string): CallFault =>
  new CallFault('DatabaseError', message, { code });

export const runIsOver = (): CallFault => databaseFault('57P01', 'The run is over.');

const faultOfServer = (error: DatabaseError, ownSql: boolean): CallFault => {
  if (error.code === '57P01') return databaseFault('57P01', sessionEnded);
  const fields: Record<string, string> = {};
  for (const name of reportedFields) {
    const value = error[name];
    if (value !== undefined) fields[name] = cut(value);
  }
  // In a statement that we wrote the author would search for it in vain.
  if (ownSql && error.position !== undefined) fields['position'] = error.position;
  return new CallFault('DatabaseError', cut(error.message), fields);
};

/**
 * Returns the error that user code sees for a failed statement.
 * @param ownSql whether the author wrote the whole statement
 */
export const faultOfStatement = (error: unknown, ownSql: boolean): CallFault => {
  if (error instanceof CallFault) return error;
  if (error instanceof DatabaseError) return faultOfServer(error, ownSql);
  if (error instanceof AnswerTooLarge) return databaseFault('54000', error.message);
  if (error instanceof RangeError) return new CallFault('TypeError', 'The params are nested too deeply.');
  return databaseFault(
    '08006',
    'The connection to the database broke: whether the statement took effect is not known.',
  );
};

const full = 'All connections to the database are in use. Try again shortly, or run fewer functions at a time.';

/** The error that user code sees when there is no connection: nothing was run. */
export const faultOfConnecting = (error: unknown): CallFault => {
  if (error instanceof ServiceError && error.code === 'dependency_unavailable') return databaseFault('53300', full);
  if (error instanceof DatabaseError && error.code === '53300') return databaseFault('53300', full);
  return databaseFault('08001', 'No connection to the project’s database could be made.');
};
