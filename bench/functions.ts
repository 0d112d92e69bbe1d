import { functionBacklog } from './functions/backlog.ts';
import { functionBundle } from './functions/bundle.ts';
import { functionEnqueue } from './functions/enqueue.ts';
import { functionInvoke } from './functions/invoke.ts';
import { functionMemory } from './functions/memory.ts';
import { functionRunner } from './functions/runner.ts';
import { functionSteps } from './functions/steps.ts';
import { functionStream } from './functions/stream.ts';
import type { Benchmark } from './harness.ts';

/** Functions: in the sandbox by itself, and through HTTP and the queue. */
export const functionBenchmarks: readonly Benchmark[] = [
  functionRunner,
  functionBundle,
  functionMemory,
  functionInvoke,
  functionStream,
  functionEnqueue,
  functionBacklog,
  functionSteps,
];
