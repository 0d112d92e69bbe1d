import type { Benchmark } from './harness.ts';
import { backlog } from './webhooks/backlog.ts';
import { hanging, hostile } from './webhooks/hostile.ts';
import { latency } from './webhooks/latency.ts';
import { tableEvents } from './webhooks/table-events.ts';
import { throughput } from './webhooks/throughput.ts';

/**
 * Deliveries to webhooks.
 * @param million whether a million of them wait in place of a hundred thousand
 */
export const webhookBenchmarks = (million: boolean): readonly Benchmark[] => [
  throughput,
  latency,
  hostile,
  hanging,
  tableEvents,
  backlog(million ? 1_000_000 : 100_000),
];
