import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { type Bench, type Benchmark, allRight, count, digits } from '../harness.ts';
import { withRedis } from '../jobs/round.ts';
import type { Server } from '../servers.ts';
import { type Platform, onPlatform } from './sides.ts';

type Traffic = readonly (readonly [at: number, what: string])[];

const names = ['API', 'workers', 'Redis', 'runner', 'PostgreSQL'] as const;
type Writes = Readonly<Record<(typeof names)[number], number>>;

const idleMs = 4000;
const seconds = 5;

/** The test of the counts has it, too; the packets of runner and PostgreSQL are counted where they arrive. */
const counting = (bench: Bench): string => `--import=${path.join(bench.root, 'test/calls/count-traffic.ts')}`;

const trafficOf = async (server: Server): Promise<Traffic> =>
  ((await server.request('traffic')) as { readonly traffic: Traffic }).traffic;

const redisWrites = async (redis: Redis): Promise<number> =>
  Number(/^total_writes_processed:(\d+)/m.exec(await redis.info('stats'))?.[1] ?? Number.NaN);

const countIn = (traffic: Traffic, begins: string): number =>
  traffic.filter(([, what]) => what.startsWith(begins)).length;

/** The writes while that is done. */
const writesDuring = async (
  [api, ...workers]: readonly Server[],
  redis: Redis,
  work: () => Promise<unknown>,
): Promise<Writes> => {
  if (api === undefined) throw new Error('there is no API');
  const all = (): Promise<Traffic[]> => Promise.all([api, ...workers].map(trafficOf));
  await all();
  const before = await redisWrites(redis);
  await work();
  const after = await redisWrites(redis);
  const [ofApi = [], ...ofWorkers] = await all();
  const ofAllWorkers = ofWorkers.flat();
  return {
    API: countIn(ofApi, 'write '),
    workers: countIn(ofAllWorkers, 'write '),
    Redis: after - before,
    runner: countIn(ofAllWorkers, 'read runner'),
    PostgreSQL: countIn([...ofApi, ...ofAllWorkers], 'read postgres'),
  };
};

/** Calls one after the other, and what each of them wrote. */
const writesOfCalls = async (
  bench: Bench,
  { processes, call }: Pick<Platform, 'processes' | 'call'>,
  redis: Redis,
): Promise<{ readonly calls: number; readonly each: readonly number[] }> => {
  const load = async (forSeconds: number): Promise<number> => {
    const plan = { ...call, callers: 1, warmUp: { requests: 0 }, extent: { seconds: forSeconds } };
    return allRight(await bench.servers.load(plan)).latencies.length;
  };
  await load(2);
  const idle = await writesDuring(processes, redis, () => delay(idleMs));
  let calls = 0;
  const busy = await writesDuring(processes, redis, async () => {
    calls = await load(seconds);
  });
  return { calls, each: names.map((name) => (busy[name] - (idle[name] * seconds * 1000) / idleMs) / calls) };
};

export const socketWrites: Benchmark = {
  name: 'calls/writes',
  run: (bench) =>
    onPlatform(
      bench,
      async (platform) => {
        const { calls, each } = await withRedis(bench, (redis) => writesOfCalls(bench, platform, redis));
        return [
          {
            name: 'socket writes of a no-op call, 1 caller',
            ours: count(each.reduce((sum, one) => sum + one, 0)),
            target: { of: 'ours', atMost: 22 },
            notes: [
              names.map((name, place) => `${name} ${digits(each[place] ?? Number.NaN)}`).join(', '),
              `over ${calls} calls, without what an idle platform writes`,
            ],
          },
        ];
      },
      [counting(bench)],
    ),
};
