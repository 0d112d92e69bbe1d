import { Counter, Gauge, Histogram } from 'prom-client';
import { registry } from '#lib/metrics.ts';
import type { Recorded } from './attempts.ts';

const registers = [registry];
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 60, 300, 1800];
const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
  new Counter({ name, help, labelNames, registers });
const histogram = (name: string, help: string): Histogram => new Histogram({ name, help, buckets, registers });
const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers });

const tries = counter(
  'plinth_webhook_tries_total',
  'Tries of deliveries that were recorded, by what became of the delivery.',
  'outcome',
);
const disabled = counter(
  'plinth_webhook_disabled_total',
  'Webhooks that were made inactive: their receiver is gone, or failed for days.',
  'reason',
);
const waitSeconds = histogram('plinth_webhook_wait_seconds', 'From an event to the first try of its delivery.');
const responseSeconds = histogram('plinth_webhook_response_seconds', 'How long receivers took to answer, or to fail.');
const fanOutSeconds = histogram(
  'plinth_webhook_fan_out_wait_seconds',
  'How long the oldest event of a pass had waited for its deliveries to be made.',
);
const fannedOut = counter(
  'plinth_webhook_deliveries_total',
  'Deliveries that were made from events, one for each webhook that subscribes.',
);
const waiting = gauge(
  'plinth_webhook_events_waiting_seconds',
  'How long the oldest event has waited for its deliveries to be made; 0: none waits.',
);
const failing = gauge(
  'plinth_webhook_lanes_failing',
  'Webhooks that fail all the time, so that they have one try at a time.',
);

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
