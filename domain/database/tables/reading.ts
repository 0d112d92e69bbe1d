import { type ClientBase, DatabaseError } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { type FenceDb, inCallersFence } from '../console/fence.ts';
import { sqlError } from '../console/sql-error.ts';

export type ReadDb = Pick<ProjectDb, 'use'>;

const timeoutMs = 10_000;
const lockTimeoutMs = 2000;

const inReadOnly = async <T>(client: ClientBase, work: (client: ClientBase) => Promise<T>): Promise<T> => {
  await client.query(
    `begin transaction isolation level repeatable read read only;
     set local statement_timeout = ${timeoutMs}; set local lock_timeout = ${lockTimeoutMs};
     set local search_path = pg_catalog, public`,
  );
  try {
    return await work(client);
  } catch (error) {
    throw error instanceof DatabaseError ? sqlError(error) : error;
  }
};

/**
 * Reads in one READ ONLY transaction, as the role that row-level security does not bind. What runs must not run code of
 * the project: the connection is lent again.
 * @throws {DataError} with the SQLSTATE as code
 */
export const reading = <T>(db: ReadDb, projectId: string, work: (client: ClientBase) => Promise<T>): Promise<T> =>
  db.use(projectId, 'service', async (client) => {
    try {
      return await inReadOnly(client, work);
    } finally {
      // Where that fails the connection is closed: it is still in the transaction.
      await client.query('rollback').catch(() => undefined);
    }
  });

export interface ReadOf {
  readonly projectId: string;
  /** Aborted when no caller waits any more. */
  readonly signal: AbortSignal;
}

/**
 * As `reading`, of tables themselves: the planner works out what indexes, views and policies call of the project's
 * functions, so the session is closed afterwards.
 * @throws {DataError} with the SQLSTATE as code
 * @throws {CallerGone}
 */
export const readingTables = <T>(
  db: FenceDb,
  { projectId, signal }: ReadOf,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> =>
  inCallersFence(db, { projectId, role: 'service', timeoutMs, signal }, (client) => inReadOnly(client, work));
