import { setTimeout as rest } from 'node:timers/promises';
import { wakeUnlockedThrottles } from '#domain/webhooks/scheduler.ts';
import { latelyMs, wakeForgottenThrottles, wakeLatelyForgotten } from '#domain/webhooks/sweep.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';

export interface ThrottleWakerOptions {
  readonly db: Queryable;
  readonly log: Log;
  /** These throttles are woken. */
  readonly onWoken: (webhookIds: readonly string[]) => void;
}

/** Wakes throttles that somebody held when deliveries were added. Nobody waits for them meanwhile. */
export interface ThrottleWaker {
  readonly add: (webhookIds: readonly string[]) => void;
  /** What is held by then is found by another worker. */
  readonly stop: () => Promise<void>;
}

/** Throttles are held for milliseconds. */
const restMs = 20;
const afterErrorMs = 1000;
/** Several times while what was made lately counts as such. */
const pollIntervalMs = latelyMs / 4;

export const startThrottleWaker = ({ db, log, onWoken }: ThrottleWakerOptions): ThrottleWaker => {
  const waiting = new Set<string>();
  let isStopped = false;
  let running: Promise<void> | undefined;

  const wakeSome = async (): Promise<void> => {
    const ids = [...waiting];
    const lockedElsewhere = new Set(await wakeUnlockedThrottles(db, ids));
    const woken = ids.filter((id) => !lockedElsewhere.has(id));
    for (const id of woken) waiting.delete(id);
    onWoken(woken);
    if (waiting.size > 0) await rest(restMs);
  };

  const work = async (): Promise<void> => {
    while (waiting.size > 0 && !isStopped) {
      await wakeSome().catch(async (error: unknown) => {
        log.warn({ err: error }, 'throttles of webhooks with due deliveries could not be woken; trying again');
        await rest(afterErrorMs);
      });
    }
    running = undefined;
  };

  const findForgotten = (find: (db: Queryable) => Promise<number>): Promise<void> =>
    find(db).then(
      () => undefined,
      (error: unknown) => log.warn({ err: error }, 'forgotten throttles could not be searched for; trying again later'),
    );

  // What a worker left behind that died, all of them perhaps; later what another one leaves.
  let finding = findForgotten(wakeForgottenThrottles);
  const timer = setInterval(() => {
    finding = finding.then(() => findForgotten(wakeLatelyForgotten));
  }, pollIntervalMs).unref();

  return {
    add: (webhookIds) => {
      for (const id of webhookIds) waiting.add(id);
      if (!isStopped && waiting.size > 0) running ??= work();
    },
    stop: async () => {
      clearInterval(timer);
      isStopped = true;
      await Promise.all([running, finding]);
      // Those that are free now are on their way; the others another worker finds.
      if (waiting.size > 0)
        await findForgotten(async (queryable) => (await wakeUnlockedThrottles(queryable, [...waiting])).length);
    },
  };
};
