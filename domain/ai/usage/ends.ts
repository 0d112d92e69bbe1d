import { setTimeout as rest } from 'node:timers/promises';
import { isDependencyFailure, isTooSlow } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { EndedCall } from './call-rows.ts';
import type { CallHeartbeat } from './call-heartbeat.ts';
import { noteUnrecorded } from './metrics.ts';
import type { Recording } from './recording.ts';

const maxInStatement = 500;
/** No caller waits for an end: it lets the answer go first, and shares a statement with others. */
const restMs = 10;
const firstPauseMs = 50;
const slowestPauseMs = 2000;
/** Some 50 MB of what waits for Postgres to come back. */
const maxWaiting = 100_000;

/** Records how calls ended, in batches, for as long as it takes. */
export interface Ends {
  /** @param settled called once it is recorded, or was given up */
  readonly record: (call: EndedCall, settled: () => void) => void;
}

interface Waiting extends EndedCall {
  readonly settled: () => void;
}

export interface EndsDeps {
  readonly recording: Recording;
  readonly heartbeat: CallHeartbeat;
  readonly log: Log;
  /** How many may wait. */
  readonly max?: number;
}

/** @returns what sends one batch to its end; never rejects */
const senderOf = ({ recording, heartbeat, log }: EndsDeps) => {
  const inHalves = async (batch: readonly Waiting[], error: unknown): Promise<void> => {
    const [only, another] = batch;
    if (another === undefined) {
      log.error({ err: error, call: only?.intent.id }, 'the end of an AI call cannot be recorded');
      noteUnrecorded();
      return only?.settled();
    }
    const middle = Math.ceil(batch.length / 2);
    await send(batch.slice(0, middle));
    return send(batch.slice(middle));
  };

  const send = async (batch: readonly Waiting[]): Promise<void> => {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, slowestPauseMs)) {
      try {
        await recording.ends(batch, heartbeat.id());
        for (const { settled } of batch) settled();
        return;
      } catch (error) {
        // A row that Postgres refuses would hold up all others for ever.
        const isOurs = !isDependencyFailure(error);
        if (isOurs || (isTooSlow(error) && batch.length > 1)) return inHalves(batch, error);
        log.warn({ err: error, calls: batch.length }, 'ends of AI calls could not be recorded; trying again');
        await rest(pauseMs);
      }
    }
  };
  return send;
};

export const createEnds = (deps: EndsDeps): Ends => {
  const { heartbeat, log, max = maxWaiting } = deps;
  let waiting: Waiting[] = [];
  let isRunning = false;
  let isFull = false;
  const send = senderOf(deps);

  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      await rest(restMs);
      isFull = false;
      const batch = waiting.slice(0, maxInStatement);
      waiting = waiting.slice(maxInStatement);
      await send(batch);
    }
    isRunning = false;
  };

  /** Its intent would stay open for as long as this process lives, and so would what it took of a budget. */
  const giveUp = (settled: () => void): void => {
    if (!isFull) log.error({ calls: max }, 'too many ends of AI calls wait for Postgres: further ones are given up');
    isFull = true;
    noteUnrecorded();
    heartbeat.replace();
    settled();
  };

  return {
    record: (call, settled) => {
      if (waiting.length >= max) return giveUp(settled);
      waiting.push({ ...call, settled });
      if (isRunning) return;
      isRunning = true;
      void drain();
    },
  };
};
