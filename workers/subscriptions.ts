import { applyWaiting } from '#domain/webhooks/subscriptions.ts';

const everyMs = 5000;

/**
 * Writes to project databases which writes emit events, where that failed when a webhook was changed. Every system
 * worker does this.
 */
export const startSubscriptions = (
  deps: Parameters<typeof applyWaiting>[0],
): { readonly stop: () => Promise<void> } => {
  let running: Promise<unknown> | null = null;
  const timer = setInterval(() => {
    running ??= applyWaiting(deps)
      .catch((error: unknown) =>
        deps.log.warn({ err: error }, 'event subscriptions could not be written; trying again later'),
      )
      .finally(() => {
        running = null;
      });
  }, everyMs).unref();
  return {
    stop: async () => {
      clearInterval(timer);
      await running;
    },
  };
};
