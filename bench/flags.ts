import { changeSeen, listeners } from './flags/changes.ts';
import { distribution, evaluating } from './flags/evaluating.ts';
import { peer } from './flags/peer.ts';
import { servingBenchmarks } from './flags/serving.ts';
import type { Benchmark } from './harness.ts';

export const flagBenchmarks: readonly Benchmark[] = [
  evaluating,
  distribution,
  ...servingBenchmarks,
  peer,
  changeSeen,
  listeners,
];
