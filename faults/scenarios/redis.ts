import { setTimeout as pause } from 'node:timers/promises';
import type { Scene } from '../scene.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

/** Three workers, load, and a fault in the middle of it. */
const duringLoad = (name: string, did: string, fault: (scene: Scene) => Promise<void>): Scenario => ({
  name,
  did,
  run: async (scene) => {
    await scene.startWorkers(3);
    // Among them jobs that outlive the fault: their places are what must not be forgotten.
    const load = [...(await underLoad(scene)), await scene.produce({ count: 12, everyMs: 80, workMs: 2500 })];
    await amidst(800);
    scene.faultBegins();
    await fault(scene);
    scene.faultIsOver();
    await answered(load);
  },
});

const cutBytes = 60_000;

export const redisScenarios: readonly Scenario[] = [
  duringLoad('Redis killed', 'kill -9 of Redis under load, started again after 500 ms', async ({ stage }) => {
    const { redis } = stage.servers;
    await redis.end('SIGKILL');
    await pause(500);
    await redis.start();
  }),
  duringLoad('Redis halted', 'SIGSTOP of Redis for 3 s under load', async ({ stage }) => {
    const { redis } = stage.servers;
    redis.signal('SIGSTOP');
    await pause(3000);
    redis.signal('SIGCONT');
  }),
  duringLoad('Redis flushed', 'FLUSHALL under load', async ({ redis }) => {
    await redis.flushall();
  }),
  duringLoad(
    'Redis append-only file cut',
    `kill -9 of Redis under load, the last ${cutBytes / 1000} kB of its append-only file cut off, started again`,
    async ({ stage }) => {
      const { redis, cutAof } = stage.servers;
      await redis.end('SIGKILL');
      cutAof(cutBytes);
      await redis.start();
    },
  ),
  duringLoad('Redis and all workers killed', 'kill -9 of Redis and of all three workers under load', async (scene) => {
    const { redis } = scene.stage.servers;
    const workers = [...scene.workers()];
    for (const worker of workers) worker.signal('SIGKILL');
    await redis.end('SIGKILL');
    await Promise.all(workers.map((worker) => worker.end));
    await redis.start();
    await scene.startWorkers(3);
  }),
];
