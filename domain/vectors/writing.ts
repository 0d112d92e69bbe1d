import type { ClientBase } from 'pg';
import type { AiCaller } from '#domain/ai/gateway/types.ts';
import type { Plan } from '#domain/projects/store.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import { inSession, lockTimeoutMs } from './session.ts';

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
 * Batches that one process writes at a time for a project. Inserting into an HNSW index keeps a processor busy for about
 * a millisecond a document, each batch on a server process of its own: four callers of a Free project filled both
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
