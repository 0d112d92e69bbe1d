import type { RepeatableOrder } from '#domain/functions/enqueue-once.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { LoadedTry } from '#domain/webhooks/attempts.ts';
import { type Answered, bodyOf, dataUrlOf, notAnswered } from '#domain/webhooks/message.ts';
import { ServiceError } from '#lib/errors.ts';
import { derivedId, msOf } from '#lib/ids.ts';

export interface FunctionTriggerDeps {
  /** @throws {ServiceError} as `enqueue` of domain/functions */
  readonly enqueueOnce: (projectId: string, order: RepeatableOrder) => Promise<void>;
  readonly projects: Pick<Projects, 'sealer'>;
  /** The platform's own address, for links to large data. */
  readonly baseUrl: string;
}

/** The body of a delivery, which receivers of webhooks know. */
const payloadOf = (
  { event, name, isLarge, webhook, project }: LoadedTry,
  { projects, baseUrl }: FunctionTriggerDeps,
): string => {
  const link = { eventId: event.id, webhookId: webhook.id };
  return bodyOf(
    event,
    name,
    isLarge ? dataUrlOf({ sealer: projects.sealer(project), baseUrl }, link) : null,
  ).toString();
};

/** The id of the job follows from the delivery, so that a repeat makes no second one. */
const orderOf = (loaded: LoadedTry, functionId: string, deps: FunctionTriggerDeps): RepeatableOrder => {
  const { deliveryId, webhook, event, depth } = loaded;
  const id = derivedId(msOf(deliveryId), `trigger:${deliveryId}`);
  const options = webhook.retry === null ? {} : { retry: webhook.retry };
  return {
    by: { id: functionId },
    jobs: [{ id, payload: payloadOf(loaded, deps), options }],
    trigger: 'event',
    requestId: `event-${event.id}`,
    startedBy: { kind: 'event', id: webhook.id },
    depth: depth + 1,
  };
};

const refusals = new Set(['not_found', 'job_loop']);

/**
 * Makes the job of a trigger's event. A loop and a function that is gone are not tried again; anything else is, as a
 * delivery is: the cap of a month, a queue that is full.
 */
export const enqueueForTrigger = async (loaded: LoadedTry, deps: FunctionTriggerDeps): Promise<Answered> => {
  const { function_id: functionId } = loaded.webhook;
  const began = performance.now();
  try {
    if (functionId !== null) await deps.enqueueOnce(loaded.project.id, orderOf(loaded, functionId, deps));
    return { ...notAnswered(''), error: null, responseTimeMs: performance.now() - began };
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status >= 500) throw error;
    return { ...notAnswered(error.message), isFinal: refusals.has(error.code) };
  }
};
