import { setTimeout as rest } from 'node:timers/promises';
import { actingAs } from '#domain/audit/actor.ts';
import { byIndex } from '#domain/webhooks/store.ts';
import {
  type Hopeless,
  type Notify,
  type Recorded,
  type WebhookAttempt,
  disableHopeless,
  recordTries,
} from '#domain/webhooks/attempts.ts';
import { noteDisabled, noteRecorded } from '#domain/webhooks/metrics.ts';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { retryEachUntilDone } from '#workers/retry-until-done.ts';

/** Records what became of tries, many at a time, and says for whom they made room. */
export interface TryRecorder {
  /** Resolves when it is recorded, however long Postgres is away. */
  readonly record: (tried: WebhookAttempt) => Promise<void>;
}

export interface TryRecorderDeps {
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
  readonly hopeless: readonly Hopeless[];
  /** Webhooks whose throttles somebody else held: nothing of their tries is recorded. */
  readonly lockedElsewhere: ReadonlySet<string>;
}

const recordSome = ({ db, notify }: TryRecorderDeps, tries: readonly WebhookAttempt[]): Promise<Done> =>
  db.transaction(async (tx) => {
    const { recorded, hopeless, lockedElsewhere } = await recordTries(tx, tries);
    await disableHopeless(tx, hopeless, notify);
    const webhookIds = new Set(tries.map((tried) => tried.webhookId)).difference(lockedElsewhere);
    return { webhookIds: [...webhookIds], recorded, hopeless, lockedElsewhere };
  }, asSystem);

const unrecordable = (tried: WebhookAttempt): WebhookAttempt => ({
  ...tried,
  responseBody: null,
  error: 'What became of the try could not be recorded.',
});

export const createTryRecorder = (deps: TryRecorderDeps): TryRecorder => {
  const { log } = deps;

  const conclude = ({ webhookIds, recorded, hopeless }: Done): void => {
    noteRecorded(recorded);
    for (const { webhookId, reason } of hopeless) {
      noteDisabled(reason);
      log.info({ webhook_id: webhookId, reason }, 'a webhook was made inactive');
    }
    deps.onRoom(webhookIds);
  };

  /** What Postgres refuses must not hold up the others: each by itself, the bad one without what it was refused for. */
  const recordEach = async (tries: readonly WebhookAttempt[]): Promise<boolean[]> => {
    const are: boolean[] = [];
    for (const tried of tries) {
      const done = await recordSome(deps, [tried]).catch((error: unknown) => {
        if (isDependencyFailure(error)) throw error;
        log.error({ err: error, delivery_id: tried.deliveryId }, 'Postgres refused the record of a delivery attempt');
        return recordSome(deps, [unrecordable(tried)]);
      });
      conclude(done);
      are.push(!done.lockedElsewhere.has(tried.webhookId));
    }
    return are;
  };

  /** Answers which are recorded. */
  const batches = createBatcher(
    retryEachUntilDone(log, 'recording tries of deliveries', async (tries: readonly WebhookAttempt[]) => {
      try {
        const done = await recordSome(deps, tries);
        conclude(done);
        return tries.map((tried) => !done.lockedElsewhere.has(tried.webhookId));
      } catch (error) {
        if (isDependencyFailure(error)) throw error;
        return recordEach(tries);
      }
    }),
    { max: maxTries, restMs: betweenMs },
  );
  return {
    record: async (tried) => {
      // A throttle that is held long holds up no other.
      while (!(await batches.add(tried))) await rest(lockRetryMs);
    },
  };
};
