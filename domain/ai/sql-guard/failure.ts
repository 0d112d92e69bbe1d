import { DatabaseError } from 'pg';
import { DataError } from '#domain/data-api/errors.ts';
import { connectionLost, sessionEnded, sqlError } from '#domain/database/console/sql-error.ts';
import { Refusal, ServiceError } from '#lib/errors.ts';

/**
 * Returns the caller's error for a statement that failed in its session.
 * @param lost what to do when the connection broke; left out when nobody knows whether the statement took effect
 */
export const ranFailure = (error: unknown, sql: string, lost?: string): unknown => {
  if (error instanceof Refusal) return error;
  if (!(error instanceof DatabaseError)) {
    if (lost === undefined) return connectionLost(error);
    const message = 'The connection to the database broke while the statement ran.';
    return new ServiceError('dependency_unavailable', message, { hint: lost, cause: error });
  }
  // The watchdog of the servers; its own words would be those of a shutdown.
  if (error.code === '57P01' && error.severity === 'FATAL') {
    return new DataError(400, '53200', sessionEnded, {
      hint: 'Nothing was changed. If the statement does little, send it again: the database may have been restarted.',
    });
  }
  return sqlError(error, sql);
};
