import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as rest } from 'node:timers/promises';
import { actingAs } from '#domain/audit/actor.ts';
import {
  type WebhookToDisable,
  type LoadedTry,
  type Notify,
  type Recorded,
  type TryRef,
  type WebhookAttempt,
  disableWebhooks,
  findTry,
  loadTries,
  noHeaders,
  nothingSent,
  recordTries,
  startedJobs,
} from '#domain/webhooks/attempts.ts';
import { type Answered, type Message, makeListened, makeMessage, notAnswered, send } from '#domain/webhooks/message.ts';
import { noteDisabled, noteFirstTry, noteRecorded, noteResponse } from '#domain/webhooks/metrics.ts';
import { byIndex } from '#domain/webhooks/store.ts';
import { createBatcher, splitRefused } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { webhookDeliver } from '#queues/webhook-deliver.ts';
import type { Signals } from '#queues/signals.ts';
import { retryEachUntilDone } from '#workers/retry-until-done.ts';
import type { JobContext, Processor } from '../processor.ts';
import { stopReasonOf } from '../running.ts';
import { type FunctionTriggerDeps, enqueueForTrigger } from './function-trigger.ts';

/** Records what became of tries, many at a time, and says for whom they made room. */
export interface TryRecorder {
  /** Resolves when it is recorded, however long Postgres is away. */
  readonly record: (tried: WebhookAttempt) => Promise<void>;
}

interface TryRecorderDeps {
  readonly db: ControlDb;
  readonly log: Log;
  readonly notify: Notify;
  /** These webhooks have room for others, or wait for another try. */
  readonly onRoom: (webhookIds: readonly string[]) => void;
}

const asSystem = { ...actingAs({ type: 'system' }, 'webhook.disable'), ...byIndex };
const maxTries = 500;
/** Nobody waits for a record but the place of its try: more of them share a transaction. */
const betweenMs = 5;
/** Throttles are held for milliseconds, mostly. */
const lockRetryMs = 20;

interface Done {
  readonly webhookIds: readonly string[];
  readonly recorded: readonly Recorded[];
  readonly toDisable: readonly WebhookToDisable[];
  /** Webhooks whose throttles somebody else held: nothing of their tries is recorded. */
  readonly lockedElsewhere: ReadonlySet<string>;
}

const recordSome = ({ db, notify }: TryRecorderDeps, tries: readonly WebhookAttempt[]): Promise<Done> =>
  db.transaction(async (tx) => {
    const { recorded, toDisable, lockedElsewhere } = await recordTries(tx, tries);
    await disableWebhooks(tx, toDisable, notify);
    const webhookIds = new Set(tries.map((tried) => tried.webhookId)).difference(lockedElsewhere);
    return { webhookIds: [...webhookIds], recorded, toDisable, lockedElsewhere };
  }, asSystem);

const unrecordable = (tried: WebhookAttempt): WebhookAttempt => ({
  ...tried,
  responseBody: null,
  error: 'What became of the try could not be recorded.',
});

export const createTryRecorder = (deps: TryRecorderDeps): TryRecorder => {
  const { log } = deps;

  const conclude = ({ webhookIds, recorded, toDisable }: Done): void => {
    noteRecorded(recorded);
    for (const { webhookId, reason } of toDisable) {
      noteDisabled(reason);
      log.info({ webhook_id: webhookId, reason }, 'a webhook was made inactive');
    }
    deps.onRoom(webhookIds);
  };

  /** Answers which are recorded. */
  const recordAll = async (tries: readonly WebhookAttempt[]): Promise<boolean[]> => {
    const done = await recordSome(deps, tries);
    conclude(done);
    return tries.map((tried) => !done.lockedElsewhere.has(tried.webhookId));
  };
  const recordRefused = async (tried: WebhookAttempt, error: unknown): Promise<boolean> => {
    log.error({ err: error, delivery_id: tried.deliveryId }, 'Postgres refused the record of a delivery attempt');
    const [isRecorded] = await recordAll([unrecordable(tried)]);
    return isRecorded === true;
  };
  const batches = createBatcher(
    retryEachUntilDone(log, 'recording tries of deliveries', splitRefused(recordAll, recordRefused)),
    { max: maxTries, restMs: betweenMs },
  );
  return {
    record: async (tried) => {
      // A throttle that is held long holds up no other.
      while (!(await batches.add(tried))) await rest(lockRetryMs);
    },
  };
};

interface WebhookDeliverDeps extends FunctionTriggerDeps {
  readonly db: ControlDb;
  readonly egress: Pick<Egress, 'fetch'>;
  readonly recorder: TryRecorder;
  readonly deliver: Signals['deliver'];
}

const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  readonly version: string;
};

/** The time that a receiver has for its answer. */
const timeoutMs = 15_000;
/** Each may bring 256 KB of data. */
const maxLoaded = 50;

const notWanted = notAnswered('The webhook was made inactive.');
const cancelled = notAnswered('The try was cancelled.');

const notDue = (): ServiceError =>
  new ServiceError('not_found', 'The delivery has had this try already, or is not kept any more.');

const resultOf = (deliveryId: string, { statusCode, responseTimeMs }: Answered): string =>
  JSON.stringify({
    delivery_id: deliveryId,
    status_code: statusCode,
    response_time_ms: Math.round(responseTimeMs * 100) / 100,
  });

/**
 * One that is stopped by hand has failed, which says nothing of its receiver; one whose worker stops is another
 * worker's.
 */
const sendUnlessStopped = async (
  message: Message,
  { egress }: WebhookDeliverDeps,
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

const received: Answered = { ...notAnswered(''), statusCode: 200, error: null };

/** A listener that is gone will not come back: its next connection is another one. */
const nobodyListens: Answered = { ...notAnswered('Nobody listens any more.'), isFinal: true };

/** To whoever listens, over Redis; a connection that is there has no time-out and answers nothing. */
const handOver = async (loaded: LoadedTry, { projects, baseUrl, deliver }: WebhookDeliverDeps): Promise<Answered> => {
  const text = makeListened(
    { ...loaded, isPast: false },
    { sealer: projects.sealer(loaded.project), baseUrl, version },
  );
  return (await deliver(loaded.webhook.id, text)) ? received : nobodyListens;
};

const isTest = (name: string): boolean => name.startsWith('test.');

/**
 * Makes one try of a delivery. What the receiver does is recorded with the delivery and is no failure of the job; with
 * the record the next try is planned, and others begin for which this one made room.
 */
export const webhookDeliverProcessor = (deps: WebhookDeliverDeps): Processor => {
  const { db, projects, recorder, baseUrl } = deps;
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
    if (webhook.kind === 'function') {
      const enqueued = await enqueueForTrigger(loaded, deps);
      await recorder.record({ ...tried, ...enqueued, version: loaded.version, requestHeaders: noHeaders });
      return enqueued;
    }
    if (webhook.kind === 'listener') {
      const handed = await handOver(loaded, deps);
      await recorder.record({ ...tried, ...handed, version: loaded.version, requestHeaders: noHeaders });
      return handed;
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
      await recorder.record({ ...tried, ...notAnswered(message), version: null, requestHeaders });
      return null;
    },
  };
};
