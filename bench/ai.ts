import { arena } from './ai/arena.ts';
import { chatGateway, streamGateway } from './ai/gateway.ts';
import { leaving } from './ai/leaving.ts';
import { logging } from './ai/logging.ts';
import { vectorStore } from './ai/vectors.ts';
import type { Benchmark } from './harness.ts';

/** The AI gateway against Portkey's in the same run, the arena, and vectors. */
export const aiBenchmarks: readonly Benchmark[] = [chatGateway, streamGateway, leaving, logging, arena, vectorStore];
