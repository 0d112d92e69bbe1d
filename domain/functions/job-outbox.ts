import { z } from 'zod';
import { ServiceError } from '#lib/errors.ts';
import { checkRelated, enqueueFields, maxDepth, maxEnqueued } from '#queues/enqueue-options.ts';
import type { EnqueueOrder } from './enqueue.ts';
import { type EnqueueOnceDeps, enqueueOnce } from './enqueue-once.ts';

/** Jobs of one call as they wait in a project's outbox. Whoever may run SQL as the project's owner can write it. */
const waitingJobs = z.strictObject({
  slug: z.string().max(63),
  depth: z
    .int()
    .min(0)
    .max(maxDepth + 1),
  request_id: z.string().max(100),
  jobs: z
    .array(
      z.strictObject({
        id: z.uuidv7(),
        payload: z.string(),
        options: z.strictObject(enqueueFields).superRefine(checkRelated),
      }),
    )
    .min(1)
    .max(maxEnqueued),
});

/** The text that a transaction keeps of jobs that it enqueues. */
export const jobsText = ({
  by,
  jobs,
  depth,
  requestId,
}: Omit<EnqueueOrder, 'trigger' | 'by'> & { readonly by: { readonly slug: string } }): string =>
  JSON.stringify({ slug: by.slug, depth, request_id: requestId, jobs });

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

const refuse = (message: string): ServiceError => new ServiceError('validation_failed', message);

const parsed = (text: string): z.output<typeof waitingJobs> => {
  const found = isJson(text) ? waitingJobs.safeParse(JSON.parse(text)) : undefined;
  if (found?.success !== true) throw refuse('these are no jobs that a function enqueued');
  if (!found.data.jobs.every(({ payload }) => isJson(payload))) throw refuse('a payload is not JSON');
  return found.data;
};

/**
 * Makes rows of the jobs of one call, once however often it is repeated: the ids are theirs from the beginning. How many
 * may wait was asked when they were enqueued.
 * @throws {ServiceError} when they are refused for good
 */
export const keepJobs = async (deps: EnqueueOnceDeps, projectId: string, text: string): Promise<void> => {
  const { slug, depth, request_id: requestId, jobs } = parsed(text);
  const order = { by: { slug }, jobs, depth, requestId, trigger: 'job' } as const;
  const limits = { ...deps.limits, waitingJobs: Number.MAX_SAFE_INTEGER };
  await enqueueOnce({ ...deps, limits }, projectId, order);
};
