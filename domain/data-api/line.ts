import { availableParallelism } from 'node:os';
import { LRUCache } from 'lru-cache';
import { CallerGone } from '#domain/data-api/errors.ts';
import { ServiceError } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import type { TenantRole } from '#lib/tenant-db.ts';

/**
 * Statements that users write may keep a processor busy each for as long as they run: more of one project's at a time
 * would be felt by all others, and would take the connections that its own functions and cron need. Where there are two
 * processors, two such statements are felt already (`npm run bench -- data/neighbours`: 2.1 to 2.3, one 1.6 to 1.7).
 */
export const maxAtOnce = Math.max(1, Math.min(2, Math.floor(availableParallelism() / 2)));
/** The queue of one role: readers do not keep out those who own the tables. */
const maxWaiting = 20;
/** More than one statement may take. */
const waitMs = 40_000;
/** Projects whose statements are counted. */
const maxKept = 10_000;

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Other statements of this project still run. Try again later.', {
    hint: 'One or two statements of a project run at a time; up to twenty more wait for up to 40 s.',
    headers: { 'Retry-After': '5' },
  });

interface InLine {
  readonly projectId: string;
  /** Roles are served in a round. */
  readonly role: TenantRole;
  /** Aborted when no caller waits any more. */
  readonly signal: AbortSignal;
}

type Line = <T>(of: InLine, work: () => Promise<T>) => Promise<T>;

/** @param atOnce how many statements of one project run at a time */
export const createLine = (atOnce: number): Line => {
  const lines = new LRUCache<string, FairPermits>({ max: maxKept });

  const lineOf = (projectId: string): FairPermits => {
    const present = lines.get(projectId);
    if (present !== undefined) return present;
    const line = createFairPermits({ total: atOnce, each: atOnce, maxWaiting, waitMs, refusal });
    lines.set(projectId, line);
    return line;
  };

  return async ({ projectId, role, signal }, work) => {
    const line = lineOf(projectId);
    await line.acquire(role, signal).catch((error: unknown) => {
      throw signal.aborted ? new CallerGone('the caller has gone') : error;
    });
    try {
      return await work();
    } finally {
      line.release(role);
    }
  };
};

/**
 * Runs SQL that a user wrote once a place is free, within this process.
 * @throws {ServiceError} `dependency_unavailable` when it was not within 40 s, or too many wait already
 * @throws {CallerGone} when it was not before the caller went away
 * @throws what `work` throws
 */
export const inLine: Line = createLine(maxAtOnce);

/**
 * As `inLine`, in the line of short statements, which has as many places of its own: a statement that holds one for
 * longer than `shortMs` has to move to the other line.
 */
export const inShortLine: Line = createLine(maxAtOnce);
