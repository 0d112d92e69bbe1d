import { setImmediate as nextLoopTurn, setTimeout as pause } from 'node:timers/promises';
import { Counter } from 'prom-client';
import { type BulkCall, createBatcher, splitRefused } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { isDependencyFailure, isTooSlow, ServiceError, toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { registry } from '#lib/metrics.ts';
import {
  type CallRecorder,
  type EndedCall,
  createCallRecorder,
  deleteHeartbeat,
  touchHeartbeat,
} from './call-store.ts';
import type { CallEnd, CallIntent, CallLog, OpenCall } from './usage.ts';

const unrecordedCalls = new Counter({
  name: 'plinth_ai_calls_unrecorded_total',
  help: 'Ends of AI calls that could not be recorded; these calls are closed as incomplete.',
  registers: [registry],
});

const touchEveryMs = 5000;

/** Shows by a heartbeat that this process lives while it has open calls; a process without calls does nothing. */
const createCallHeartbeat = (db: ControlDb, log: Log) => {
  let id = newId();
  let touchedAt = -Infinity;
  let open = 0;
  let timer: NodeJS.Timeout | undefined;

  const isDue = (): boolean => performance.now() - touchedAt >= touchEveryMs;
  const touched = (which: string): void => {
    if (which === id) touchedAt = performance.now();
  };
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const touch = async (): Promise<void> => {
    if (!isDue()) return;
    const which = id;
    try {
      await touchHeartbeat(db, which);
      touched(which);
    } catch (error) {
      log.warn({ err: error }, 'the heartbeat of AI calls failed');
    }
  };
  return {
    id: () => id,
    /** Whether the next statement has to touch the heartbeat. */
    isDue,
    touched,
    callOpened: () => {
      open += 1;
      timer ??= setInterval(() => void touch(), touchEveryMs / 2).unref();
    },
    callEnded: () => {
      open -= 1;
      if (open === 0) stop();
    },
    /** Lets go of all calls that are open: they are given up unless their ends are recorded after all. */
    replace: () => {
      id = newId();
      touchedAt = -Infinity;
    },
    close: async () => {
      stop();
      if (touchedAt === -Infinity) return;
      await deleteHeartbeat(db, id).catch((error: unknown) =>
        log.debug({ err: error }, 'the heartbeat of the AI calls could not be deleted now; the sweep deletes it'),
      );
    },
  };
};

/** Intents and ends that one statement records. */
const maxInStatement = 500;

interface RecordingDeps {
  readonly recorder: CallRecorder;
  /** Hears of ends that were recorded. */
  readonly onEnded: (calls: readonly EndedCall[]) => void;
  readonly heartbeat: ReturnType<typeof createCallHeartbeat>;
  readonly log: Log;
}

/** The time at which budgets reset, and the seconds until then. */
export const nextMonth = (now = new Date()): { readonly resets: Date; readonly inSeconds: number } => {
  const resets = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
  return { resets, inSeconds: Math.max(1, Math.ceil((resets.getTime() - now.getTime()) / 1000)) };
};

const budgetExceeded = (): ServiceError => {
  const { resets, inSeconds } = nextMonth();
  return new ServiceError(
    'budget_exceeded',
    `The project's budget for AI has no room for this call. It begins anew at ${resets.toISOString()}.`,
    {
      hint: 'A smaller max_tokens may fit. PUT /projects/{id}/ai/budget changes the budget.',
      headers: { 'Retry-After': String(inSeconds) },
    },
  );
};

const unavailable = (cause?: unknown): ServiceError =>
  new ServiceError('dependency_unavailable', 'The call cannot be recorded just now. Try again shortly.', {
    headers: { 'Retry-After': '2' },
    cause,
  });

const maxIntentWaitMs = 2000;
/** For a batch that has waited for the one before it. */
const minIntentWaitMs = 500;

/** Whether the call's project has a budget, of which it took its part. */
type Recorded = 'unlimited' | 'budgeted';

interface WaitingIntent extends Pick<PromiseWithResolvers<Recorded>, 'resolve' | 'reject'> {
  readonly intent: CallIntent;
  readonly since: number;
}

/** @returns a function that sends one batch to its end; it never rejects */
const intentSender = ({ recorder, heartbeat, log }: RecordingDeps) => {
  const failed = (batch: readonly WaitingIntent[], error: unknown, failure: ServiceError): void => {
    log.warn({ err: error, calls: batch.length }, 'intents of AI calls could not be recorded');
    for (const { reject } of batch) reject(failure);
  };
  const record = splitRefused<WaitingIntent, void>(
    async (batch) => {
      const [id, touch] = [heartbeat.id(), heartbeat.isDue()];
      const intents = batch.map(({ intent }) => intent);
      const verdicts = await recorder.intents(intents, { heartbeat: id, touch });
      if (touch) heartbeat.touched(id);
      return batch.map(({ intent, resolve, reject }) => {
        const isGranted = verdicts.get(intent.id);
        if (isGranted === false) reject(budgetExceeded());
        else resolve(isGranted === undefined ? 'unlimited' : 'budgeted');
      });
    },
    (waiting, error) => Promise.resolve(failed([waiting], error, toServiceError(error))),
  );
  // Callers whose intents an earlier half has recorded have their answers already.
  return (batch: readonly WaitingIntent[]): Promise<unknown> =>
    record(batch).catch((error: unknown) => failed(batch, error, unavailable(error)));
};

/** Records intents in batches: what arrives while one is under way goes out in the next. */
const createIntents = (deps: RecordingDeps) => {
  const waiting: WaitingIntent[] = [];
  const send = intentSender(deps);
  let isRunning = false;

  /** A caller that waited too long gets an error; the statement may still succeed, which the call's end corrects. */
  const sendInTime = async (batch: readonly WaitingIntent[]): Promise<void> => {
    const waited = performance.now() - (batch[0]?.since ?? 0);
    const overdue = Promise.withResolvers<void>();
    const giveUp = (): void => {
      for (const { reject } of batch) reject(unavailable());
      overdue.resolve();
    };
    const timer = setTimeout(giveUp, Math.max(minIntentWaitMs, maxIntentWaitMs - waited));
    await Promise.race([send(batch), overdue.promise]);
    clearTimeout(timer);
  };

  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      // Calls that were read together go out together, and to their providers first, which takes one turn of the event
      // loop: callers wait for those.
      await nextLoopTurn();
      await nextLoopTurn();
      await sendInTime(waiting.splice(0, maxInStatement));
    }
    isRunning = false;
  };

  /** @throws {ServiceError} `dependency_unavailable` after some 2 s, `budget_exceeded` */
  return (intent: CallIntent): Promise<Recorded> => {
    const { promise, resolve, reject } = Promise.withResolvers<Recorded>();
    waiting.push({ intent, since: performance.now(), resolve, reject });
    if (!isRunning) {
      isRunning = true;
      void drain();
    }
    return promise;
  };
};

/** No caller waits for an end: it lets the answer go first, and shares a statement with others. */
const lingerMs = 10;
const firstPauseMs = 50;
const maxPauseMs = 2000;
/** Some 50 MB of ends that wait for Postgres to come back. */
const maxWaitingEnds = 100_000;

/** @returns a function that retries one batch until it is recorded; it never rejects */
const endSender = ({ recorder, heartbeat, onEnded, log }: RecordingDeps): BulkCall<EndedCall, void> =>
  splitRefused(
    async (batch) => {
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
        try {
          await recorder.ends(batch, heartbeat.id());
          onEnded(batch);
          return batch.map(() => undefined);
        } catch (error) {
          // A row that Postgres refuses would hold up all others for ever.
          if (!isDependencyFailure(error)) throw error;
          if (batch.length > 1 && isTooSlow(error)) throw new Error('the batch is too large', { cause: error });
          log.warn({ err: error, calls: batch.length }, 'ends of AI calls could not be recorded; trying again');
          await pause(pauseMs);
        }
      }
    },
    ({ intent }, error) => {
      log.error({ err: error, call: intent.id }, 'the end of an AI call cannot be recorded');
      unrecordedCalls.inc();
      return Promise.resolve();
    },
  );

/** Records how calls ended, in batches, for as long as it takes. */
const createEnds = (deps: RecordingDeps, max: number) => {
  const { heartbeat, log } = deps;
  const send = endSender(deps);
  let waiting = 0;
  let isFull = false;

  const batcher = createBatcher<EndedCall, void>(
    (batch) => {
      waiting -= batch.length;
      isFull = false;
      return send(batch);
    },
    { max: maxInStatement, lingerMs, eager: true },
  );

  /** Its intent would stay open for as long as this process lives, and so would what it took of a budget. */
  const giveUp = (): void => {
    if (!isFull) log.error({ calls: max }, 'too many ends of AI calls wait for Postgres: further ones are given up');
    isFull = true;
    unrecordedCalls.inc();
    heartbeat.replace();
  };

  /** Resolves once the end is recorded, or was given up. */
  return async (call: EndedCall): Promise<void> => {
    if (waiting >= max) return giveUp();
    waiting += 1;
    await batcher.add(call);
  };
};

/**
 * A call that failed for its caller is recorded as an error, whatever the provider answered; a guess reserves no
 * budget.
 */
const endOf = (end: CallEnd, state: Recorded | ServiceError, { reserveNanoUsd }: CallIntent): CallEnd => {
  if (state instanceof ServiceError)
    return end.status === 'success' || end.status === 'error'
      ? { ...end, status: 'error', errorCode: state.code, errorMessage: state.message }
      : end;
  if (state !== 'budgeted' || !end.givenUp || reserveNanoUsd === null) return end;
  return { ...end, costNanoUsd: Math.max(end.costNanoUsd ?? 0, reserveNanoUsd) };
};

interface Parts extends Pick<RecordingDeps, 'heartbeat'> {
  readonly recordIntent: ReturnType<typeof createIntents>;
  readonly recordEnd: ReturnType<typeof createEnds>;
  /** Pending for each call that has ended and is not recorded yet. */
  readonly unsettled: Set<Promise<void>>;
}

const openCall = ({ heartbeat, recordIntent, recordEnd, unsettled }: Parts, intent: CallIntent): OpenCall => {
  const over = Promise.withResolvers<void>();
  let state: Recorded | ServiceError | undefined;
  let end: CallEnd | undefined;

  const finish = (): void => {
    unsettled.delete(over.promise);
    over.resolve();
    heartbeat.callEnded();
  };
  /** Once it is known what became of the intent, and how the call ended. */
  const conclude = (): void => {
    if (state === undefined || end === undefined) return;
    // Meanwhile the provider was called on a budget that this process did not know: that counts like any other call.
    if (state instanceof ServiceError && state.code === 'budget_exceeded' && !end.givenUp) return finish();
    void recordEnd({ intent, end: endOf(end, state, intent) }).then(finish);
  };
  const record = async (): Promise<void> => {
    try {
      state = await recordIntent(intent);
    } catch (error) {
      state = toServiceError(error);
      throw state;
    } finally {
      conclude();
    }
  };

  heartbeat.callOpened();
  const recorded = record();
  // A caller that ends the call before it is recorded may never need the answer.
  recorded.catch(() => undefined);
  return {
    recorded,
    end: (how) => {
      if (end !== undefined) return;
      end = how;
      unsettled.add(over.promise);
      conclude();
    },
  };
};

export interface CallLogDeps {
  readonly db: ControlDb;
  readonly log: Log;
  /** How many ends may wait for Postgres. */
  readonly maxWaiting?: number;
  /** Hears of ends that were recorded; left out: nobody does. */
  readonly onEnded?: RecordingDeps['onEnded'];
}

const maxCloseMs = 5000;

/** See `CallLog`. All that it does runs in the background of the calls; a process without calls does nothing. */
export const createCallLog = ({
  db,
  log,
  maxWaiting = maxWaitingEnds,
  onEnded = () => undefined,
}: CallLogDeps): CallLog => {
  const deps: RecordingDeps = {
    recorder: createCallRecorder(db),
    heartbeat: createCallHeartbeat(db, log),
    onEnded,
    log,
  };
  const { heartbeat } = deps;
  const unsettled = new Set<Promise<void>>();
  const parts = { heartbeat, recordIntent: createIntents(deps), recordEnd: createEnds(deps, maxWaiting), unsettled };
  const settled = async (): Promise<void> => {
    await Promise.all(unsettled);
  };
  return {
    begin: (intent) => openCall(parts, intent),
    settled,
    close: async () => {
      await Promise.race([settled(), pause(maxCloseMs, undefined, { ref: false })]);
      await heartbeat.close();
    },
  };
};
