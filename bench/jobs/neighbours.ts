import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, type Benchmark, type Row, digits, ms, percentile, spread } from '../harness.ts';
import type { Child } from './child.ts';
import { onControlDatabase } from './database.ts';
import { waits } from './latency.ts';
import { type FloodPlan, type Moment, type TricklePlan, type Way, projectIds } from './plan.ts';
import { onRound } from './round.ts';

const [slots, limit, workMs] = [50, 10, 10];
const backlog = 50_000;
const quiet = projectIds(100, 1000);
const everyMs = 20;

/** Returns the worker's notes, once all of these have started. */
const startedOf = async (requested: readonly Moment[], worker: Child): Promise<Moment[]> => {
  const started = new Map<string, number>();
  while (!requested.every(([id]) => started.has(id))) {
    for (const [id, at] of await worker.ask<Moment[]>('started')) started.set(id, at);
    await delay(100);
  }
  return [...started];
};

/** How long each quiet project's one job waits while thousands of jobs of noisy projects wait. */
const quietWaits = (bench: Bench, way: Way, noisy: number, databaseUrl = ''): Promise<number[]> =>
  onRound(bench, { way, slots, limit, workMs, databaseUrl }, async ({ producer, worker, openProducer }) => {
    const neighbour = await openProducer();
    const flood: FloodPlan = { count: backlog, projects: projectIds(noisy), callers: 256 };
    await producer.ask('flood', flood);
    await worker.ask('note');
    const requested = await neighbour.ask<Moment[]>('trickle', { projects: quiet, everyMs } satisfies TricklePlan);
    return waits(requested, await startedOf(requested, worker));
  });

const p99 = (values: readonly number[]): number => percentile(values, 0.99);

/** Against one noisy project there is room beside its limit; 20 of them want every slot. */
const rowsOf = async (bench: Bench, noisy: number, atMost: number): Promise<Row[]> => {
  const ours = await quietWaits(bench, 'gate', noisy);
  const floor = await quietWaits(bench, 'plain', noisy);
  const engine = await onControlDatabase(bench, (url) => quietWaits(bench, 'engine', noisy, url));
  const name = `wait of a quiet project, p99, beside ${noisy === 1 ? 'a noisy one' : `${noisy} noisy ones`}`;
  return [
    {
      name,
      ours: ms(p99(ours)),
      floor: ms(p99(floor)),
      target: { of: 'ours', atMost },
      notes: [
        `${digits(backlog)} jobs of ${workMs} ms wait, ${limit} of one project may run, ${slots} slots; then 100 projects ask for one job each, ${everyMs} ms apart`,
        `gate and BullMQ: ${spread(ours)} ms`,
        `BullMQ alone: ${spread(floor)} ms`,
        `with rows in Postgres: ${spread(engine)} ms`,
      ],
    },
    {
      name: `${name}: times better`,
      ours: { value: p99(floor) / p99(ours), unit: '×' },
      ...(noisy === 1 && { target: { of: 'ours', atLeast: 100 } as const }),
      notes: ['p99 of BullMQ alone, divided by ours'],
    },
  ];
};

export const neighbours: Benchmark = {
  name: 'jobs/noisy-neighbour',
  run: async (bench) => [...(await rowsOf(bench, 1, 50)), ...(await rowsOf(bench, 20, 100))],
};
