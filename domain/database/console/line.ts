import { CallerGone } from '#domain/data/errors.ts';
import { ServiceError } from '#lib/errors.ts';
import { createFairPermits } from '#lib/fair-permits.ts';

/**
 * Statements that users write may keep a processor busy each for as long as they run: more of one project's at a time
 * would be felt by all others, and would take the connections that its own functions and cron need.
 */
const mostAtOnce = 2;
const mostWaiting = 20;
/** More than one statement may take. */
const waitMs = 40_000;

const permits = createFairPermits({
  total: Infinity,
  each: mostAtOnce,
  mostWaiting,
  waitMs,
  refusal: () =>
    new ServiceError('dependency_unavailable', `${mostAtOnce} statements of this project still run. Try again later.`, {
      hint: 'At most two statements of a project run at a time; further ones wait for up to 40 s.',
      headers: { 'Retry-After': '5' },
    }),
});

/**
 * Runs SQL that a user wrote when it is its turn, within this process.
 * @throws {ServiceError} `dependency_unavailable` when it was not within 40 s, or too many wait already
 * @throws {CallerGone} when it was, and nobody waits for it any more
 * @throws what `work` throws
 */
export const inLine = async <T>(projectId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
  await permits.acquire(projectId);
  try {
    if (signal.aborted) throw new CallerGone('the caller has gone');
    return await work();
  } finally {
    permits.release(projectId);
  }
};
