import { ServiceError } from '#lib/errors.ts';
import type { JobRef } from '#queues/define.ts';
import type { Gate } from '#queues/gate/types.ts';

export const queueFull = (type: string): ServiceError =>
  new ServiceError('queue_full', `Too many jobs of type ${type} of this project are waiting. Nothing was accepted.`, {
    hint: 'Try again when some have run; GET /projects/{id}/jobs?status=queued lists them.',
    headers: { 'Retry-After': '5' },
  });

// The gate lists those with the longest lines: who has as many waiting as a project may is among them.
const maxProjects = 1000;

/**
 * Before the row is written, by the gate's own count: a refusal then leaves nothing behind, the Idempotency-Key included.
 * Requests at the same moment may go over the limit by their number.
 * @throws {ServiceError} `queue_full`
 */
export const requireRoomAt = async (
  gate: Pick<Gate, 'projects'>,
  { type, projectId }: Pick<JobRef, 'type' | 'projectId'>,
): Promise<void> => {
  const own = (await gate.projects(type, maxProjects)).find((load) => load.projectId === projectId);
  if (own === undefined || own.queued === 0 || own.queued < own.waiting) return;
  throw queueFull(type);
};
