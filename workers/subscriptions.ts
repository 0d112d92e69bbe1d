import { applyWaiting } from '#domain/webhooks/subscriptions.ts';
import { type Poller, startPoller } from '#lib/poller.ts';

const everyMs = 5000;

/**
 * Writes to project databases which writes emit events, where that failed when a webhook was changed. Every system
 * worker does this.
 */
export const startSubscriptions = (deps: Parameters<typeof applyWaiting>[0]): Pick<Poller, 'stop'> =>
  startPoller(() => applyWaiting(deps), {
    everyMs,
    firstInMs: everyMs,
    onFailure: (error) => deps.log.warn({ err: error }, 'event subscriptions could not be written; trying again later'),
  });
