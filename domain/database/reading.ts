import { type ClientBase, DatabaseError } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { sqlError } from './sql-error.ts';

export type ReadDb = Pick<ProjectDb, 'use'>;

const timeoutMs = 10_000;
const lockTimeoutMs = 2000;

/**
 * Reads in one READ ONLY transaction, as the role that row-level security does not bind. What runs must not run code of
 * the project: the connection is lent again.
 * @throws {DataError} with the SQLSTATE as code
 */
export const reading = <T>(db: ReadDb, projectId: string, work: (client: ClientBase) => Promise<T>): Promise<T> =>
  db.use(projectId, 'service', async (client) => {
    await client.query(
      `begin transaction isolation level repeatable read read only;
       set local statement_timeout = ${timeoutMs}; set local lock_timeout = ${lockTimeoutMs};
       set local search_path = pg_catalog, public`,
    );
    try {
      return await work(client);
    } catch (error) {
      throw error instanceof DatabaseError ? sqlError(error) : error;
    } finally {
      // Where that fails the connection is closed: it is still in the transaction.
      await client.query('rollback').catch(() => undefined);
    }
  });
