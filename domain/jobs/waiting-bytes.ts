import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** How many bytes the payloads of a project's waiting jobs may have, by plan. */
export type WaitingBytes = Readonly<Record<Plan, number>>;

/**
 * Shorter payloads are accepted unasked: as many as may wait by number (10,000 of a type) are 80 MB, less than the smallest
 * plan gives, and adding up that many rows takes some 10 ms.
 */
const countedFrom = 8 * 1024;

/** Exact whatever dies when: derived from the rows that wait. */
export const waitingBytesOf = async (db: Queryable, projectId: string): Promise<number> => {
  const { bytes } = await one(
    db.query<{ bytes: number }>(
      `select coalesce(sum(octet_length(data)), 0)::float8 as bytes from jobs where project_id = $1 and status = 'queued'`,
      [projectId],
      'waiting-bytes',
    ),
  );
  return bytes;
};

const waitingFull = (limit: number): ServiceError =>
  new ServiceError('queue_full', `The waiting jobs of this project may hold ${limit} bytes. Nothing was accepted.`, {
    hint: 'Try again when some have run, or store large data elsewhere and send its address; GET /projects/{id}/usage tells how much waits.',
    headers: { 'Retry-After': '5' },
  });

/**
 * Asked before the row is written. Requests at the same moment may go over the limit together, by no more than the bodies
 * that a project may have in flight.
 * @param data the new job's, JSON text
 * @throws {ServiceError} `queue_full`
 */
export const requireWaitingBytes = async (
  db: Queryable,
  limits: WaitingBytes,
  { projectId, data }: { readonly projectId: string; readonly data: string },
): Promise<void> => {
  const bytes = Buffer.byteLength(data);
  if (bytes < countedFrom) return;
  const project = await maybeOne(
    db.query<{ plan: Plan }>('select plan from projects where id = $1', [projectId], 'plan-of-project'),
  );
  const limit = limits[project?.plan ?? 'free'];
  if ((await waitingBytesOf(db, projectId)) + bytes > limit) throw waitingFull(limit);
};
