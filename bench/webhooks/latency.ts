import { setTimeout as delay } from 'node:timers/promises';
import { type Cost, costBetween, costNow, postmasterOf, sumOf } from '../calls/cost.ts';
import { type Benchmark, digits, ms, percentile } from '../harness.ts';
import { withPostgres } from '../jobs/database.ts';
import { withRedis } from '../jobs/round.ts';
import { type Scene, emit, onScene } from './scene.ts';

const projects = 20;
const warmUpSeconds = 3;

/** One event at a time, each committed by itself, so many a second; answers how many there were. */
const steady = async (
  scene: Scene,
  ids: readonly string[],
  { rate, seconds }: { readonly rate: number; readonly seconds: number },
): Promise<number> => {
  const began = performance.now();
  const total = rate * seconds;
  const writes: Promise<void>[] = [];
  for (let n = 0; n < total; n += 1) {
    const due = began + (n * 1000) / rate;
    if (due > performance.now()) await delay(due - performance.now(), undefined, { signal: scene.bench.signal });
    writes.push(emit(scene, ids[n % ids.length] ?? '', 1));
  }
  await Promise.all(writes);
  return total;
};

/** From the event to its arrival, in ms, at that rate. */
export const latenciesAt = async (
  scene: Scene,
  ids: readonly string[],
  load: { readonly rate: number; readonly seconds: number },
): Promise<number[]> => {
  const { receiver } = scene;
  const before = await receiver.ask<number>('count');
  await receiver.ask('latencies');
  const total = await steady(scene, ids, load);
  await receiver.ask('received', before + total);
  return receiver.ask<number[]>('latencies');
};

export const healthyProjects = async (scene: Scene, count: number): Promise<string[]> => {
  const ids = await Promise.all(Array.from({ length: count }, scene.addProject));
  for (const id of ids) await scene.addWebhook(id, `${scene.url}/in`);
  return ids;
};

/** The processor time of a worker, Redis and PostgreSQL meanwhile. */
const withCost = async (
  scene: Scene,
  worker: number,
  work: () => Promise<number[]>,
): Promise<{ readonly all: number[]; readonly cost: Cost }> => {
  const postmaster = await withPostgres(scene.databaseUrl, postmasterOf);
  return withRedis(scene.bench, async (redis) => {
    const payers = { workers: [worker], postmaster, redis };
    const before = await costNow(payers);
    const all = await work();
    return { all, cost: costBetween(before, await costNow(payers)) };
  });
};

export const latency: Benchmark = {
  name: 'webhooks/latency',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const ids = await healthyProjects(scene, projects);
      const worker = await scene.startWorker();
      await latenciesAt(scene, ids, { rate: 400, seconds: warmUpSeconds });
      const { all, cost } = await withCost(scene, worker, () => latenciesAt(scene, ids, { rate: 400, seconds: 20 }));
      const each = (seconds: number): number => (seconds * 1000) / all.length;
      const notes = [
        `${digits(all.length)} events of ${projects} projects, each committed alone; from its commit to its arrival`,
      ];
      return [
        {
          name: 'webhooks: from commit to receiver at 400 events/s, p50',
          ours: ms(percentile(all, 0.5)),
          target: { of: 'ours', atMost: 50 },
          notes,
        },
        {
          name: 'webhooks: from commit to receiver at 400 events/s, p99',
          ours: ms(percentile(all, 0.99)),
          target: { of: 'ours', atMost: 500 },
          notes,
        },
        {
          name: 'webhooks: CPU of an event from its insert to the record of its delivery, 400 events/s',
          ours: ms(each(sumOf(cost))),
          notes: [
            (['workers', 'redis', 'postgres'] as const)
              .map((name) => `${name} ${each(cost[name]).toFixed(2)}`)
              .join(', '),
          ],
        },
      ];
    }),
};
