import { setTimeout as pause } from 'node:timers/promises';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError, toServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { CallEnd, CallIntent, CallLog, OpenCall } from './calls.ts';
import { type Ends, createEnds } from './ends.ts';
import { type Intents, type Recorded, createIntents } from './intents.ts';
import { type CallHeartbeat, createCallHeartbeat } from './call-heartbeat.ts';
import { createRecording } from './recording.ts';

export interface CallLogDeps {
  readonly db: ControlDb;
  readonly log: Log;
  /** How many ends may wait for Postgres. */
  readonly maxWaiting?: number;
}

const maxCloseMs = 5000;

/** Resolves when all calls that have ended by some moment are recorded, whichever end meanwhile. */
const createSettling = () => {
  const unsettled = new Set<string>();
  const watches = new Set<{ readonly left: Set<string>; readonly resolve: () => void }>();
  return {
    ended: (id: string): void => void unsettled.add(id),
    settled: (id: string): void => {
      unsettled.delete(id);
      for (const watch of watches) {
        watch.left.delete(id);
        if (watch.left.size > 0) continue;
        watches.delete(watch);
        watch.resolve();
      }
    },
    all: (): Promise<void> =>
      new Promise((resolve) => {
        if (unsettled.size === 0) return resolve();
        watches.add({ left: new Set(unsettled), resolve });
      }),
  };
};

interface Parts {
  readonly heartbeat: CallHeartbeat;
  readonly intents: Intents;
  readonly ends: Ends;
  readonly settling: ReturnType<typeof createSettling>;
}

/** The caller keeps what it was told, whatever the provider answered; a guess holds no budget. */
const endOf = (end: CallEnd, state: Recorded | ServiceError, { reserveNanoUsd }: CallIntent): CallEnd => {
  if (state instanceof ServiceError)
    return end.status === 'success' || end.status === 'error'
      ? { ...end, status: 'error', errorCode: state.code }
      : end;
  if (state !== 'budgeted' || !end.givenUp || reserveNanoUsd === null) return end;
  return { ...end, costNanoUsd: Math.max(end.costNanoUsd ?? 0, reserveNanoUsd) };
};

const openCall = ({ heartbeat, intents, ends, settling }: Parts, intent: CallIntent): OpenCall => {
  let state: Recorded | ServiceError | undefined;
  let end: CallEnd | undefined;

  const finish = (): void => {
    settling.settled(intent.id);
    heartbeat.callEnded();
  };
  /** Once it is known what became of the intent, and how the call ended. */
  const conclude = (): void => {
    if (state === undefined || end === undefined) return;
    // Meanwhile the provider was called on a budget that this process did not know: that counts like any other call.
    if (state instanceof ServiceError && state.code === 'budget_exceeded' && !end.givenUp) return finish();
    ends.record({ intent, end: endOf(end, state, intent) }, finish);
  };

  const record = async (): Promise<void> => {
    try {
      state = await intents.record(intent);
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
      settling.ended(intent.id);
      conclude();
    },
  };
};

/** See `CallLog`. All that it does runs in the background of the calls; a process without calls does nothing. */
export const createCallLog = ({ db, log, maxWaiting }: CallLogDeps): CallLog => {
  const heartbeat = createCallHeartbeat({ db, log });
  const settling = createSettling();
  const recording = createRecording(db);
  const ends = createEnds({ recording, heartbeat, log, ...(maxWaiting !== undefined && { max: maxWaiting }) });
  const parts: Parts = { heartbeat, settling, ends, intents: createIntents({ recording, heartbeat, log }) };
  return {
    begin: (intent) => openCall(parts, intent),
    settled: settling.all,
    close: async () => {
      await Promise.race([settling.all(), pause(maxCloseMs, undefined, { ref: false })]);
      await heartbeat.close();
    },
  };
};
