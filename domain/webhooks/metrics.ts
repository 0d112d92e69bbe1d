import { Counter, Gauge, Histogram } from 'prom-client';
import { registry } from '#lib/metrics.ts';
import type { Recorded } from './attempts.ts';

const tries = new Counter({
  name: 'plinth_webhook_tries_total',
  help: 'Tries of deliveries that were recorded, by what became of the delivery.',
  labelNames: ['outcome'] as const,
  registers: [registry],
});

const disabled = new Counter({
  name: 'plinth_webhook_disabled_total',
  help: 'Webhooks that were made inactive: their receiver is gone, or failed for days.',
  labelNames: ['reason'] as const,
  registers: [registry],
});

const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 60, 300, 1800];

const waitSeconds = new Histogram({
  name: 'plinth_webhook_wait_seconds',
  help: 'From an event to the first try of its delivery.',
  buckets,
  registers: [registry],
});

const responseSeconds = new Histogram({
  name: 'plinth_webhook_response_seconds',
  help: 'How long receivers took to answer, or to fail.',
  buckets,
  registers: [registry],
});

const fanOutSeconds = new Histogram({
  name: 'plinth_webhook_fan_out_wait_seconds',
  help: 'How long the oldest event of a pass had waited for its deliveries to be made.',
  buckets,
  registers: [registry],
});

const fannedOut = new Counter({
  name: 'plinth_webhook_deliveries_total',
  help: 'Deliveries that were made from events, one for each webhook that subscribes.',
  registers: [registry],
});

const waiting = new Gauge({
  name: 'plinth_webhook_events_waiting_seconds',
  help: 'How long the oldest event has waited for its deliveries to be made; 0: none waits.',
  registers: [registry],
});

const failing = new Gauge({
  name: 'plinth_webhook_lanes_failing',
  help: 'Webhooks that fail all the time, so that they have one try at a time.',
  registers: [registry],
});

export const noteRecorded = (recorded: readonly Recorded[]): void => {
  for (const { status } of recorded) tries.inc({ outcome: status });
};
export const noteDisabled = (reason: string): void => disabled.inc({ reason });
export const noteFirstTry = (waitedMs: number): void => waitSeconds.observe(waitedMs / 1000);
export const noteResponse = (ms: number): void => responseSeconds.observe(ms / 1000);
export const noteFannedOut = (deliveries: number, waitedMs: number): void => {
  fannedOut.inc(deliveries);
  fanOutSeconds.observe(waitedMs / 1000);
};
export const noteBacklog = (now: { readonly oldestSeconds: number; readonly failingWebhooks: number }): void => {
  waiting.set(now.oldestSeconds);
  failing.set(now.failingWebhooks);
};
