import { setImmediate as sendNext } from 'node:timers/promises';
import { ServiceError, isDependencyFailure, toServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { CallIntent } from './calls.ts';
import type { CallHeartbeat } from './call-heartbeat.ts';
import type { Recording } from './recording.ts';

const maxInStatement = 500;
const maxWaitMs = 2000;
/** For a batch that has waited for the one before it. */
const minWaitMs = 500;

/** Whether the call's project has a budget, of which it took its part. */
export type Recorded = 'unlimited' | 'budgeted';

/** Records intents in batches: what arrives while one is under way goes out in the next. */
export interface Intents {
  /** @throws {ServiceError} `dependency_unavailable` after some 2 s, `budget_exceeded` */
  readonly record: (intent: CallIntent) => Promise<Recorded>;
}

interface Waiting {
  readonly intent: CallIntent;
  readonly since: number;
  readonly resolve: (recorded: Recorded) => void;
  readonly reject: (error: ServiceError) => void;
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

const resolveWaiting = (waiting: Waiting, verdict: boolean | undefined): void => {
  if (verdict === false) waiting.reject(budgetExceeded());
  else waiting.resolve(verdict === undefined ? 'unlimited' : 'budgeted');
};

interface IntentsDeps {
  readonly recording: Recording;
  readonly heartbeat: CallHeartbeat;
  readonly log: Log;
}

/** @returns what sends one batch to its end; never rejects */
const senderOf = ({ recording, heartbeat, log }: IntentsDeps) => {
  const send = async (batch: readonly Waiting[]): Promise<void> => {
    const keeping = { heartbeat: heartbeat.id(), touch: heartbeat.isDue() };
    try {
      const intents = batch.map(({ intent }) => intent);
      const verdicts = await recording.intents(intents, keeping);
      if (keeping.touch) heartbeat.touched(keeping.heartbeat);
      for (const waiting of batch) resolveWaiting(waiting, verdicts.get(waiting.intent.id));
    } catch (error) {
      await fail(batch, error);
    }
  };

  /** Postgres refused a value of one of them: that one is searched for, so that the others go on. */
  const fail = async (batch: readonly Waiting[], error: unknown): Promise<void> => {
    if (batch.length > 1 && !isDependencyFailure(error)) {
      const middle = Math.ceil(batch.length / 2);
      await send(batch.slice(0, middle));
      return send(batch.slice(middle));
    }
    log.warn({ err: error, calls: batch.length }, 'intents of AI calls could not be recorded');
    const failure = isDependencyFailure(error) ? unavailable(error) : toServiceError(error);
    for (const { reject } of batch) reject(failure);
  };

  return send;
};

export const createIntents = (deps: IntentsDeps): Intents => {
  const waiting: Waiting[] = [];
  const send = senderOf(deps);
  let isRunning = false;

  /** A caller that waited too long gets an error; the statement may still succeed, which the call's end corrects. */
  const sendInTime = async (batch: readonly Waiting[]): Promise<void> => {
    const waited = performance.now() - (batch[0]?.since ?? 0);
    const overdue = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => {
        for (const { reject } of batch) reject(unavailable());
        overdue.resolve();
      },
      Math.max(minWaitMs, maxWaitMs - waited),
    );
    await Promise.race([send(batch), overdue.promise]);
    clearTimeout(timer);
  };

  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      // Calls that were read together go out together, and to their providers first, which takes one turn of the event
      // loop: callers wait for those.
      await sendNext();
      await sendNext();
      await sendInTime(waiting.splice(0, maxInStatement));
    }
    isRunning = false;
  };

  return {
    record: (intent) =>
      new Promise((resolve, reject) => {
        waiting.push({ intent, since: performance.now(), resolve, reject });
        if (isRunning) return;
        isRunning = true;
        void drain();
      }),
  };
};
