import type { Benchmark } from './harness.ts';
import { accept, acceptMillion } from './jobs/accept.ts';
import { idleCpu } from './jobs/idle.ts';
import { idleLatency } from './jobs/latency.ts';
import { neighbours } from './jobs/neighbours.ts';
import { roundTrip } from './jobs/round-trip.ts';
import { throughput } from './jobs/throughput.ts';

/**
 * The job engine, against BullMQ alone in the same run.
 * @param million whether a million jobs are piled up in place of a hundred thousand
 */
export const jobBenchmarks = (million: boolean): readonly Benchmark[] => [
  throughput,
  idleLatency,
  roundTrip,
  neighbours,
  million ? acceptMillion : accept,
  idleCpu,
];
