import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from '../children.ts';
import type { LoadOptions, Scene } from '../scene.ts';

/** The faults come in the middle of the load, not at a moment that a test waits for. */
export const amidst = (ms: number): Promise<void> => pause(ms);

/** Two producers, one of which waits for each end. */
export const underLoad = async (scene: Scene, request: LoadOptions = {}): Promise<readonly Child[]> =>
  Promise.all([scene.produce(request), scene.produce({ ...request, waitMs: 60_000 })]);

export const answered = async (producers: readonly Child[]): Promise<void> => {
  await Promise.all(producers.map((producer) => producer.end));
};
