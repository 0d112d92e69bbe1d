import { type ConcurrencyLimit, createConcurrencyLimit } from './concurrency-limit.ts';
import { ServiceError } from './errors.ts';
import { createFairPermits } from './fair-permits.ts';

/** The searches of one project, of one kind. */
const maxOfProject = 2;

/**
 * The searches of all projects and kinds in this process. Each keeps a processor of the database busy for up to some
 * seconds, and somebody may have many projects: so the others wait for their turn.
 */
const permits = createFairPermits({
  total: 4,
  each: maxOfProject,
  maxWaiting: 3 * maxOfProject,
  waitMs: 10_000,
  refusal: () => new ServiceError('overloaded', 'Too many searches run just now.', { headers: { 'Retry-After': '5' } }),
});

/**
 * Bounds searches through rows of a project: a third one of the kind is refused, and those of all projects take turns.
 * @param what the rows, as they stand in the refusal: `a project's logs`
 * @returns takes the project's id
 * @throws {ServiceError} `rate_limited`; `overloaded` after ten seconds without a turn
 */
export const createSearchLimit = (what: string): ConcurrencyLimit => {
  const ofProject = createConcurrencyLimit(
    maxOfProject,
    () =>
      new ServiceError('rate_limited', `Only ${maxOfProject} searches of ${what} run at a time.`, {
        headers: { 'Retry-After': '2' },
      }),
  );
  return (projectId, work) =>
    ofProject(projectId, async () => {
      await permits.acquire(projectId);
      try {
        return await work();
      } finally {
        permits.release(projectId);
      }
    });
};
