import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone } from '#domain/data-api/errors.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { sqlError } from '#domain/database/console/sql-error.ts';
import { stopQuery } from '#domain/data-api/stop-query.ts';
import { ServiceError, isDependencyFailure, notFound } from '#lib/errors.ts';
import type { Departure } from '#lib/departure.ts';
import { extensionUnavailable } from './extension.ts';

export interface SessionOf {
  readonly projectId: string;
  /** Aborted when no caller waits any more: the running statement is stopped. */
  readonly signal: Departure;
  readonly mode: 'read' | 'write';
}

const timeoutMs = 25_000;
/** How long a statement of such a session waits for a lock. */
export const lockTimeoutMs = 5000;

/** A setting of the session that a trigger of the project may have changed no longer applies. */
const beginSql = (mode: SessionOf['mode']): string =>
  `begin transaction isolation level ${mode === 'read' ? 'repeatable read read only' : 'read committed read write'};
   set local role none; set local search_path = pg_catalog, pg_temp;
   set local statement_timeout = ${timeoutMs}; set local lock_timeout = ${lockTimeoutMs}`;

const failureOf = (error: unknown): unknown => {
  if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') return error;
  // Dropped or changed in the moment between two statements, or waited for in vain: another try may do.
  if (error.code === '55P03') {
    return new ServiceError('dependency_unavailable', 'The collection is in use by a long change. Try again.');
  }
  if (error.code === '58P01') return extensionUnavailable(error);
  if (error.code === '42P01') return notFound('collection');
  // Serialization, deadlock, shutdown; not our own time-out, which has words of its own.
  return isDependencyFailure(error) && error.code !== '57014' ? error : sqlError(error);
};

const whileWaited = async <T>(
  db: FenceDb,
  { projectId, signal }: SessionOf,
  client: ClientBase,
  work: () => Promise<T>,
): Promise<T> => {
  if (signal.aborted) throw new CallerGone('nobody waits any more');
  const over = new AbortController();
  const stop = (): void => void stopQuery(db, { projectId, client, ended: over.signal });
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await work();
  } catch (error) {
    // A late cancellation may hit the next statement after one that was stopped: the connection is closed.
    throw signal.aborted ? new CallerGone('nobody waits any more') : error;
  } finally {
    over.abort();
    signal.removeEventListener('abort', stop);
  }
};

/**
 * One transaction in a project's database, as the role that row-level security does not bind, on a connection that is lent
 * again: triggers and expressions of the project may run in it, as they do for the data API.
 * @throws {DataError} what the server refused, with the SQLSTATE as code
 * @throws {ServiceError} `vector_extension_unavailable`
 * @throws {CallerGone}
 */
export const inSession = <T>(db: FenceDb, of: SessionOf, work: (client: ClientBase) => Promise<T>): Promise<T> =>
  db.use(of.projectId, 'service', (client) =>
    whileWaited(db, of, client, async () => {
      await client.query('reset all');
      await client.query(beginSql(of.mode));
      try {
        const result = await work(client);
        await client.query('commit');
        await client.query('reset all');
        return result;
      } catch (error) {
        // Where that fails the connection is closed: it is still in the transaction.
        await client.query('rollback').catch(() => undefined);
        throw failureOf(error);
      }
    }),
  );
