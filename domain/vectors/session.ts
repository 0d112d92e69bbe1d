import { type ClientBase, DatabaseError } from 'pg';
import type { AiCaller } from '#domain/ai/gateway/types.ts';
import { CallerGone } from '#domain/data-api/errors.ts';
import { stopQuery } from '#domain/data-api/stop-query.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { sqlError } from '#domain/database/console/sql-error.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { Plan } from '#domain/projects/store.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { ServiceError, isDependencyFailure, notFound } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import { extensionUnavailable } from './collections.ts';

interface SessionOf {
  readonly projectId: string;
  /** Aborted when no caller waits any more: the running statement is stopped. */
  readonly signal: Disconnection;
  readonly mode: 'read' | 'write';
}

const timeoutMs = 25_000;
/** How long a statement of such a session waits for a lock. */
const lockTimeoutMs = 5000;

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
 * One transaction in a project's database, as the role that row-level security does not bind, on a connection that is
 * lent again: triggers and expressions of the project may run in it, as they do for the data API.
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

export type WriterDb = Pick<ProjectDb, 'use' | 'useAtLowPriority' | 'endSession'>;

const waitMs = 120_000;
/** Batches of one project in one process; an upsert has two under way. */
const maxWaiting = 200;

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Other documents of this project are still being written.', {
    hint: 'Try again later, with fewer documents at a time.',
    headers: { 'Retry-After': '5' },
  });

const permitsFor = (each: number): FairPermits =>
  createFairPermits({ total: Infinity, each, maxWaiting, waitMs, refusal });

/**
 * Batches that one process writes at a time for a project. Inserting into an HNSW index keeps a processor busy for
 * about a millisecond a document, each batch on a server process of its own: four callers of a Free project filled both
 * processors of a small machine, and a chat beside them took 5.8 times as long.
 */
const permits: Readonly<Record<Plan, FairPermits>> = {
  free: permitsFor(1),
  pro: permitsFor(2),
  enterprise: permitsFor(2),
};

/**
 * A key among the advisory locks of a project's database: the writers of a Free project run one at a time across all
 * processes.
 */
export const writerLock = 7_245_995;
/** Each other process may write one batch first. */
const turnTimeoutMs = 20_000;

/** One query of several statements: one round trip. */
const takeTurn = async (client: ClientBase): Promise<void> => {
  await client.query(`set local lock_timeout = ${turnTimeoutMs}; select pg_advisory_xact_lock(${writerLock});
    set local lock_timeout = ${lockTimeoutMs}`);
};

/**
 * A transaction that writes many documents, on a connection of low priority: one at a time for a Free project, two in
 * each process for others.
 * @throws as `inSession`
 * @throws {ServiceError} `dependency_unavailable` when it was not its turn within two minutes
 */
export const writing = async (
  { tenantDb, caller }: { readonly tenantDb: WriterDb; readonly caller: AiCaller },
  work: (client: ClientBase) => Promise<void>,
): Promise<void> => {
  const { project, signal } = caller;
  const turns = permits[project.plan];
  await turns.acquire(project.id);
  try {
    const db = { use: tenantDb.useAtLowPriority, endSession: tenantDb.endSession };
    await inSession(db, { projectId: project.id, signal, mode: 'write' }, async (client) => {
      if (project.plan === 'free') await takeTurn(client);
      await work(client);
    });
  } finally {
    turns.release(project.id);
  }
};
