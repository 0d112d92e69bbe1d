import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { type FenceDb, type StoppedBy, inCallersFence } from '#domain/database/console/fence.ts';
import { type Once, onceAsOwner } from '#domain/database/console/owner-key.ts';
import { ServiceError } from '#lib/errors.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { checkRlsSql, checkSchemaSql } from './check.ts';
import { applyConcurrently } from './concurrently.ts';
import { ranFailure } from './failure.ts';
import { notAllowed, requireAllowed } from './refusal.ts';
import { reasonsOnServer } from './server-check.ts';
import type { Allowed } from './verdict.ts';

export interface ApplyDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

export interface ApplyRequest {
  readonly projectId: string;
  readonly sql: string;
  /** A person has seen the statement and wants it. */
  readonly approved: boolean;
  readonly once?: Once | undefined;
}

export interface Applied {
  readonly applied: true;
  readonly command: string;
  readonly sql: string;
}

const timeoutMs = 30_000;
const lockTimeoutMs = 5000;

const failureOf = (error: unknown, sql: string, stoppedBy: StoppedBy): unknown => {
  if (stoppedBy === 'caller') return new CallerGone('the caller has gone');
  if (stoppedBy === 'watchdog') return new DataError(504, '57014', 'The change took too long and was undone.');
  if (!(error instanceof DatabaseError) || error.code !== '55P03') return ranFailure(error, sql);
  return new ServiceError('conflict', 'The table is in use.', { hint: 'Nothing was changed. Try again.' });
};

const applyIn = async (client: ClientBase, sql: string, { uses }: Allowed): Promise<void> => {
  const reasons = await reasonsOnServer(client, uses);
  if (reasons.length > 0) throw notAllowed(reasons);
  // Not for the key: who has it may take longer.
  await client.query(`set lock_timeout = ${lockTimeoutMs}`);
  // By the extended protocol, which takes one statement, whatever the parser saw.
  await runBound(client, { sql, params: [] });
};

const requireApproval = (approved: boolean): void => {
  if (approved) return;
  throw new ServiceError('approval_required', 'Nothing is applied before somebody has approved of it.', {
    hint: 'Show the statement to a person, and send it again with "approved": true.',
  });
};

/**
 * Runs one statement that the guard allows, once for its key, as the project's owner: in a transaction of a session of its
 * own (CREATE INDEX CONCURRENTLY without one), for at most 30 s, and 5 s of waiting for a lock.
 */
const apply = async (
  deps: ApplyDeps,
  { projectId, sql, approved, once }: ApplyRequest,
  signal: AbortSignal,
  check: typeof checkSchemaSql,
): Promise<Applied & { readonly verdict: Allowed }> => {
  requireApproval(approved);
  const verdict = requireAllowed(check(sql));
  const done: Applied = { applied: true, command: verdict.command, sql };
  const fence = { projectId, role: 'owner', timeoutMs, signal } as const;
  await inCallersFence(deps.tenantDb, fence, async (client, stoppedBy) => {
    try {
      if (verdict.concurrently) return await applyConcurrently(client, { sql, once }, verdict);
      await client.query('begin');
      await onceAsOwner(client, once, async () => {
        await applyIn(client, sql, verdict);
        // The outcome is recorded by the statement that stores the idempotency key.
        return '{}';
      });
      await client.query('commit');
    } catch (error) {
      throw failureOf(error, sql, stoppedBy());
    }
  });
  noteChange(deps, projectId, { schema: true, rows: true });
  return { ...done, verdict };
};

/**
 * Applies a CREATE TABLE, CREATE INDEX or ALTER TABLE (interface, "AI limits" 3 to 5; contract, section 8).
 * @throws {ServiceError} `approval_required`, `sql_not_allowed`, `conflict`, `idempotency_mismatch`
 * @throws {DataError} with the SQLSTATE as code; `plan_limit_exceeded`
 */
export const applySchemaSql = async (
  deps: ApplyDeps,
  request: ApplyRequest,
  signal: AbortSignal,
): Promise<Applied & { readonly tables: readonly string[] }> => {
  const { verdict, ...done } = await apply(deps, request, signal, checkSchemaSql);
  return { ...done, tables: verdict.objects.tables };
};

/**
 * Applies a CREATE or ALTER POLICY, or switches row-level security on.
 * @throws as `applySchemaSql`
 */
export const applyRlsSql = async (
  deps: ApplyDeps,
  request: ApplyRequest,
  signal: AbortSignal,
): Promise<Applied & { readonly policies: readonly string[] }> => {
  const { verdict, ...done } = await apply(deps, request, signal, checkRlsSql);
  return { ...done, policies: verdict.objects.policies };
};
