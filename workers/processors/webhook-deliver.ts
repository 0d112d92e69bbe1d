import { byIndex } from '#domain/webhooks/store.ts';
import {
  type LoadedTry,
  type TryRef,
  findTry,
  loadTries,
  noHeaders,
  nothingSent,
  startedJobs,
} from '#domain/webhooks/attempts.ts';
import { type Message, makeMessage } from '#domain/webhooks/message.ts';
import { noteFirstTry, noteResponse } from '#domain/webhooks/metrics.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { webhookDeliver } from '#queues/webhook-deliver.ts';
import type { JobContext, Processor } from '../processor.ts';
import { stopReasonOf } from '../running.ts';
import { type Answered, send } from '#domain/webhooks/send.ts';
import type { TryRecorder } from '../webhooks/tries.ts';

export interface WebhookDeliverDeps {
  readonly db: ControlDb;
  readonly egress: Pick<Egress, 'fetch'>;
  readonly projects: Pick<Projects, 'sealer'>;
  readonly recorder: TryRecorder;
  /** The platform's own address, for links. */
  readonly baseUrl: string;
  /** The platform's base URL. */
  readonly version: string;
  /** The time that a receiver has for its answer; 15 s by default. */
  readonly timeoutMs?: number;
}

const usualTimeoutMs = 15_000;
/** Each may bring 256 KB of data. */
const maxLoaded = 50;

const failed = (error: string): Answered => ({
  statusCode: null,
  responseTimeMs: 0,
  responseBody: null,
  error,
  notBefore: null,
  isGone: false,
});

const notWanted = failed('The webhook was made inactive.');
const cancelled = failed('The try was cancelled.');

const notDue = (): ServiceError =>
  new ServiceError('not_found', 'The delivery has had this try already, or is not kept any more.');

const resultOf = (deliveryId: string, { statusCode, responseTimeMs }: Answered): string =>
  JSON.stringify({
    delivery_id: deliveryId,
    status_code: statusCode,
    response_time_ms: Math.round(responseTimeMs * 100) / 100,
  });

/** One that is stopped by hand has failed, which says nothing of its receiver; one whose worker stops is another worker's. */
const sendUnlessStopped = async (
  message: Message,
  { egress, timeoutMs = usualTimeoutMs }: WebhookDeliverDeps,
  signal: AbortSignal,
): Promise<Answered> => {
  try {
    const answered = await send(message, { egress, timeoutMs, signal });
    noteResponse(answered.responseTimeMs);
    return answered;
  } catch (error) {
    if (stopReasonOf(signal) === 'cancelled') return cancelled;
    throw error;
  }
};

const isTest = (name: string): boolean => name.startsWith('test.');

/**
 * Makes one try of a delivery. What the receiver does is recorded with the delivery and is no failure of the job; with the
 * record the next try is planned, and others begin for which this one made room.
 */
export const webhookDeliverProcessor = (deps: WebhookDeliverDeps): Processor => {
  const { db, projects, recorder, baseUrl, version } = deps;
  const loads = createBatcher<TryRef, LoadedTry | null>(
    (tries) => db.transaction((tx) => loadTries(tx, tries), byIndex),
    { max: maxLoaded },
  );

  const deliver = async (loaded: LoadedTry, { jobId, signal }: JobContext): Promise<Answered> => {
    const { deliveryId, webhook, event, project } = loaded;
    const tried = { deliveryId, jobId, webhookId: webhook.id };
    if (!loaded.isWanted) {
      await recorder.record({ ...tried, ...notWanted, version: null, requestHeaders: nothingSent });
      return notWanted;
    }
    const message = makeMessage(loaded, { sealer: projects.sealer(project), baseUrl, version });
    if (loaded.triesBefore === 0 && !isTest(loaded.name)) noteFirstTry(Date.now() - event.created_at.getTime());
    const answered = await sendUnlessStopped(message, deps, signal);
    const sentVersion = answered === cancelled ? null : loaded.version;
    await recorder.record({ ...tried, ...answered, version: sentVersion, requestHeaders: message.shownHeaders });
    return answered;
  };

  return {
    run: async (data, context): Promise<JobOutcome> => {
      const { delivery_id: deliveryId } = data as JobData<typeof webhookDeliver>;
      const loaded = await loads.add({ deliveryId, jobId: context.jobId });
      if (loaded === null) throw notDue();
      const answered = await deliver(loaded, context);
      return { status: 'succeeded', result: resultOf(deliveryId, answered), error: null };
    },
    giveUp: async ({ message }, { jobId }) => {
      const tried = await findTry(db, jobId);
      if (tried === undefined) return null;
      // A started attempt counts, so that a delivery that fails here each time comes to an end.
      const requestHeaders = (await startedJobs(db, [jobId])).has(jobId) ? noHeaders : nothingSent;
      await recorder.record({ ...tried, ...failed(message), version: null, requestHeaders });
      return null;
    },
  };
};
