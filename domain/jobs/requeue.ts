import type { Queryable } from '#lib/control-db.ts';
import type { Producer } from '#queues/producer.ts';
import { jobOfType } from '#queues/registry.ts';
import { inlineDataLength } from './message.ts';
import { jobsWaitingLong } from './store.ts';

const afterSeconds = 60;
const mostAtOnce = 500;

/**
 * Puts accepted jobs on their queue that may never have reached it, because the API died in between or Redis forgot
 * them. One that is there still stays as it is: its id is taken.
 * @returns how many were put on their queue, or found there
 */
export const requeueWaiting = async (db: Queryable, producer: Producer): Promise<number> => {
  const waiting = await jobsWaitingLong(db, {
    seconds: afterSeconds,
    limit: mostAtOnce,
    inlineLength: inlineDataLength,
  });
  for (const { id, project_id: projectId, type, request_id: requestId, data } of waiting) {
    const job = jobOfType(type);
    if (job) await producer.enqueue(job, { id, projectId, requestId, data, replyTo: null });
  }
  return waiting.length;
};
