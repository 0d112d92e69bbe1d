import { Counter, Histogram } from 'prom-client';
import { registry } from '#lib/metrics.ts';
import type { CallIntent, CallStatus } from '../usage/calls.ts';

const calls = new Counter({
  name: 'plinth_ai_calls_total',
  help: 'Calls of models that have ended.',
  labelNames: ['provider', 'kind', 'status'] as const,
  registers: [registry],
});

const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600];

const seconds = new Histogram({
  name: 'plinth_ai_call_seconds',
  help: 'How long calls of models took, from the request to the end of the answer.',
  labelNames: ['provider'] as const,
  buckets,
  registers: [registry],
});

const firstSeconds = new Histogram({
  name: 'plinth_ai_first_token_seconds',
  help: 'How long streams of models took to their first piece.',
  labelNames: ['provider'] as const,
  buckets,
  registers: [registry],
});

interface Ended {
  readonly status: CallStatus;
  readonly latencyMs: number;
  readonly ttftMs: number | null;
}

export const noteCall = ({ provider, kind }: Pick<CallIntent, 'provider' | 'kind'>, ended: Ended): void => {
  calls.inc({ provider, kind, status: ended.status });
  seconds.observe({ provider }, ended.latencyMs / 1000);
  if (ended.ttftMs !== null) firstSeconds.observe({ provider }, ended.ttftMs / 1000);
};
