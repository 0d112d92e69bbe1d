import {
  type Bench,
  type Benchmark,
  type Pair,
  type Row,
  byTurns,
  digits,
  median,
  megabytes,
  perSecond,
  range,
  seconds,
} from '../harness.ts';
import { type Child, type StartChild, sharedNow, withChildren } from './child.ts';
import { onControlDatabase } from './database.ts';
import { type FloodPlan, type Plan, type Span, type WorkerPlan, projectIds } from './plan.ts';
import { redisBytes } from './redis-cost.ts';
import { planOf, removeKeys, withRedis } from './round.ts';

const callers = 256;
const slice = 5000;
const rounds = 9;
// Few enough that each has thousands waiting: Redis packs short lists tighter.
const projects = projectIds(50);

/** Accepts so many; answers the rate, in jobs a second. */
const flood = async (producer: Child, count: number): Promise<number> => {
  const plan: FloodPlan = { projects, callers, count };
  const { began, ended } = await producer.ask<Span>('flood', plan);
  return count / ((ended - began) / 1000);
};

const opened = async (plan: Plan, start: StartChild): Promise<Child> => {
  const producer = start('producer');
  await producer.ask('open', plan);
  await flood(producer, slice);
  return producer;
};

/** A worker opens the gate and leaves: from then on jobs wait. */
const firstLife = async (plan: Plan, start: StartChild): Promise<void> => {
  const worker = start('worker');
  await worker.ask('open', { ...plan, replyTo: null } satisfies WorkerPlan);
  await worker.ask('close');
  await worker.stop();
};

/** New processes, as after a restart of everything: until the first job begins, in s. */
const restart = async (plan: Plan, start: StartChild): Promise<number> => {
  const began = sharedNow();
  const [producer, worker] = [start('producer'), start('worker')];
  const first = worker.ask<number>('first');
  await Promise.all([producer.ask('open', plan), worker.ask('open', { ...plan, replyTo: null } satisfies WorkerPlan)]);
  return ((await first) - began) / 1000;
};

interface Piled {
  readonly bytesPerJob: number;
  readonly redisMb: number;
  /** Jobs accepted a second while all of them wait, and on a platform where few do. */
  readonly rates: readonly Pair<number>[];
  /** From the start of new processes to the beginning of the first job, in s. */
  readonly toFirstJob: number;
}

/** Piles up jobs that nobody runs, then accepts some more there and where few wait, by turns. */
const pile = (bench: Bench, plans: Pair<Plan>, count: number): Promise<Piled> =>
  withChildren(bench, async (start) =>
    withRedis(bench, async (redis) => {
      await firstLife(plans.ours, start);
      await firstLife(plans.floor, start);
      const [full, empty] = [await opened(plans.ours, start), await opened(plans.floor, start)];
      const before = await redisBytes(redis);
      await flood(full, count);
      const bytes = await redisBytes(redis);
      const rates = await byTurns(
        rounds,
        () => flood(full, slice),
        () => flood(empty, slice),
      );
      await Promise.all([full.kill(), empty.kill()]);
      const toFirstJob = await restart(plans.ours, start);
      return { rates, toFirstJob, bytesPerJob: (bytes - before) / count, redisMb: bytes / 1e6 };
    }),
  );

const piling = (bench: Bench, count: number): Promise<Piled> =>
  onControlDatabase(bench, (fullUrl) =>
    onControlDatabase(bench, async (emptyUrl) => {
      const round = { way: 'engine', slots: 50, limit: 10, workMs: 10 } as const;
      const ours = planOf(bench, { ...round, databaseUrl: fullUrl });
      const floor = planOf(bench, { ...round, databaseUrl: emptyUrl });
      try {
        return await pile(bench, { ours, floor }, count);
      } finally {
        await removeKeys(bench, ours.prefix);
        await removeKeys(bench, floor.prefix);
      }
    }),
  );

const acceptRows = ({ rates }: Piled, waiting: string): Row[] => {
  const [full, empty] = [rates.map(({ ours }) => ours), rates.map(({ floor }) => floor)];
  return [
    {
      name: 'jobs accepted by one API process, row and gate',
      ours: perSecond(median(empty)),
      target: { of: 'ours', atLeast: 5000 },
      notes: [`${callers} callers at a time over ${projects.length} projects; nobody runs them: ${range(empty)}/s`],
    },
    {
      name: `accepted with ${waiting}`,
      ours: perSecond(median(full)),
      floor: perSecond(median(empty)),
      ratio: median(rates.map(({ ours, floor }) => ours / floor)),
      target: { of: 'ratio', atLeast: 0.8 },
      notes: [`${rounds} × ${digits(slice)} by turns; floor: the same where few wait`, `${waiting}: ${range(full)}/s`],
    },
  ];
};

const rowsOf = (piled: Piled, count: number): Row[] => {
  const waiting = `${digits(count)} jobs waiting`;
  return [
    ...acceptRows(piled, waiting),
    {
      name: `Redis for a waiting job, of ${digits(count)}`,
      ours: { value: piled.bytesPerJob, unit: 'bytes' },
      target: { of: 'ours', atMost: 1024 },
      notes: [`in ${projects.length} projects`],
    },
    {
      name: `Redis with ${waiting}`,
      ours: megabytes(piled.redisMb),
      target: { of: 'ours', atMost: 1200 },
      notes: ['`used_memory` of the whole server'],
    },
    {
      name: `restart of all processes to the first job, ${waiting}`,
      ours: seconds(piled.toFirstJob),
      target: { of: 'ours', atMost: 10 },
      notes: ['producer and worker were killed; new ones until the first job begins; Redis and Postgres stay'],
    },
  ];
};

const accepting = (count: number): Benchmark => ({
  name: 'jobs/accept',
  run: async (bench) => rowsOf(await piling(bench, count), count),
});

export const accept = accepting(100_000);
/** Takes minutes. */
export const acceptMillion = accepting(1_000_000);
