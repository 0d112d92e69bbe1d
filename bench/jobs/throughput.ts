import type { Redis } from 'ioredis';
import { type Bench, type Benchmark, type Row, byTurns, digits, median, perSecond, range } from '../harness.ts';
import { cpuSeconds } from '../proc.ts';
import { onControlDatabase } from './database.ts';
import { type Span, type Way, projectIds } from './plan.ts';
import { redisCpu } from './redis-cost.ts';
import { type Round, onRound, withRedis } from './round.ts';

const slots = 50;
const callers = 256;
const warmUp = 5000;
const count = 10_000;
const rounds = 9;

/** The cost of a number of jobs: the rate, and CPU time per job in µs. */
interface Flow {
  readonly rate: number;
  readonly producer: number;
  readonly worker: number;
  readonly redis: number;
}

const cpuOf = async ({ producer, worker }: Round, redis: Redis): Promise<number[]> => [
  cpuSeconds(producer.pid),
  cpuSeconds(worker.pid),
  await redisCpu(redis),
];

/** Jobs that do nothing, from the first call to the end of the last one. */
const flow = async (round: Round, projects: readonly string[], redis: Redis): Promise<Flow> => {
  const { producer, worker } = round;
  const done = await worker.ask<number>('count');
  const before = await cpuOf(round, redis);
  const all = worker.ask<number>('ended', done + count);
  const { began } = await producer.ask<Span>('flood', { projects, callers, count });
  const ended = await all;
  const after = await cpuOf(round, redis);
  const [p = 0, w = 0, r = 0] = after.map((value, i) => ((value - (before[i] ?? 0)) / count) * 1e6);
  return { rate: count / ((ended - began) / 1000), producer: p, worker: w, redis: r };
};

const side = (name: string, flows: readonly Flow[]): string => {
  const cpu = (of: 'producer' | 'worker' | 'redis'): string => digits(median(flows.map((one) => one[of])));
  return (
    `${name}: ${range(flows.map(({ rate }) => rate))} jobs/s; CPU a job: producer ${cpu('producer')} µs, ` +
    `worker ${cpu('worker')} µs, Redis ${cpu('redis')} µs`
  );
};

const cpuSum = ({ producer, worker, redis }: Flow): number => producer + worker + redis;

const warm = async ({ producer, worker }: Round, projects: readonly string[]): Promise<void> => {
  await producer.ask('flood', { projects, callers, count: warmUp });
  await worker.ask('ended', warmUp);
};

/** Both sides are there all the time and work by turns. */
const compare = async (bench: Bench, ways: readonly [Way, Way], projects: readonly string[], databaseUrl?: string) =>
  withRedis(bench, (redis) => {
    const plan = { slots, limit: 1000, workMs: 0, ...(databaseUrl !== undefined && { databaseUrl }) };
    return onRound(bench, { way: ways[0], ...plan }, (ours) =>
      onRound(bench, { way: ways[1], ...plan }, async (floor) => {
        await warm(ours, projects);
        await warm(floor, projects);
        const pairs = await byTurns(
          rounds,
          () => flow(ours, projects, redis),
          () => flow(floor, projects, redis),
        );
        return { pairs, ours: pairs.map((pair) => pair.ours), floor: pairs.map((pair) => pair.floor) };
      }),
    );
  });

const redisAlone = async (bench: Bench, projects: number): Promise<Row> => {
  const { pairs, ours, floor } = await compare(bench, ['gate', 'plain'], projectIds(projects));
  const byCpu = median(pairs.map((pair) => cpuSum(pair.floor) / cpuSum(pair.ours)));
  return {
    name: `jobs end to end, Redis alone, ${projects === 1 ? '1 project' : `${projects} projects`}`,
    ours: perSecond(median(ours.map(({ rate }) => rate))),
    floor: perSecond(median(floor.map(({ rate }) => rate))),
    ratio: median(pairs.map((pair) => pair.ours.rate / pair.floor.rate)),
    target: { of: 'ratio', atLeast: 0.6 },
    notes: [
      `${rounds} × ${digits(count)} jobs that do nothing, ${callers} callers, ${slots} slots; floor: BullMQ alone, added in bulk`,
      side('gate and BullMQ', ours),
      side('BullMQ', floor),
      `ratio by CPU time of all processes: ${byCpu.toFixed(2)}`,
    ],
  };
};

/** The overhead of the rows: it has no bound, Postgres is the price of losing nothing. */
const withRows = async (bench: Bench, projects: number): Promise<Row> => {
  const { pairs, ours, floor } = await onControlDatabase(bench, (url) =>
    compare(bench, ['engine', 'plain'], projectIds(projects), url),
  );
  return {
    name: `jobs end to end, each with its row in Postgres, ${projects} projects`,
    ours: perSecond(median(ours.map(({ rate }) => rate))),
    floor: perSecond(median(floor.map(({ rate }) => rate))),
    ratio: median(pairs.map((pair) => pair.ours.rate / pair.floor.rate)),
    notes: [side('the engine', ours), side('BullMQ, which writes no row', floor)],
  };
};

export const throughput: Benchmark = {
  name: 'jobs/throughput',
  run: async (bench) => [await redisAlone(bench, 1), await redisAlone(bench, 100), await withRows(bench, 100)],
};
