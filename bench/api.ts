import { setTimeout as delay } from 'node:timers/promises';
import { createProject, signUp } from './client.ts';
import {
  type Bench,
  type Benchmark,
  type Row,
  allRight,
  byTurns,
  digits,
  median,
  megabytes,
  perSecond,
  percentile,
  range,
} from './harness.ts';
import type { LoadPlan, LoadResult } from './load.ts';
import { memoryOf } from './proc.ts';
import { requiredIn } from './settings.ts';
import type { Server } from './servers.ts';

const pool = { PLINTH_DATABASE_POOL: '16' };
/** As in production (one JSON line a request, here to a file), but never refusing. */
const apiSpec = {
  name: 'api',
  file: 'api/server.ts',
  env: { ...pool, PLINTH_RATE_LIMITS: 'off', PLINTH_LOG_FORMAT: 'json' },
};
const floorSpec = { name: 'bare-koa', file: 'bench/floors/bare-koa.ts', env: pool };

const callers = 32;

/** A plan that reads one project as its owner; the project lives in the stack's control database, which all share. */
const readPlan = async (bench: Bench): Promise<Omit<LoadPlan, 'url' | 'pid'>> => {
  const stack = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(stack);
  const id = await createProject(stack, user);
  return {
    headers: user.headers,
    requests: [{ method: 'GET', path: `/projects/${id}` }],
    callers,
    warmUp: { seconds: 1 },
    extent: { seconds: 3 },
    status: 200,
    mustHold: `"id":"${id}"`,
  };
};

const rate = ({ latencies, seconds }: LoadResult): number => latencies.length / seconds;
const cpuMicros = ({ latencies, cpuSeconds }: LoadResult): number => (cpuSeconds / latencies.length) * 1e6;

const side = (name: string, results: readonly LoadResult[]): string => {
  const all = results.flatMap((result) => result.latencies);
  const busy = median(results.map((result) => (result.cpuSeconds / result.seconds) * 100));
  return (
    `${name}: ${range(results.map(rate))} requests/s, ${digits(median(results.map(cpuMicros)))} µs of CPU a request, ` +
    `${digits(busy)} % of a core; p50 ${digits(median(all))} ms, p99 ${digits(percentile(all, 0.99))} ms`
  );
};

export const projectRead: Benchmark = {
  name: 'api/read-project',
  run: async (bench) => {
    const [ours, floor, plan] = await Promise.all([
      bench.servers.start(apiSpec),
      bench.servers.start(floorSpec),
      readPlan(bench),
    ]);
    const load = (server: Server) => async () =>
      allRight(await bench.servers.load({ ...plan, url: server.url, pid: server.pid }));
    const pairs = await byTurns(5, load(ours), load(floor));
    await Promise.all([ours.stop(), floor.stop()]);
    const of = (name: 'ours' | 'floor'): LoadResult[] => pairs.map((pair) => pair[name]);
    const cpuRatio = median(pairs.map((pair) => cpuMicros(pair.floor) / cpuMicros(pair.ours)));
    return [
      {
        name: 'authenticated GET /projects/{id}',
        ours: perSecond(median(of('ours').map(rate))),
        floor: perSecond(median(of('floor').map(rate))),
        ratio: median(pairs.map((pair) => rate(pair.ours) / rate(pair.floor))),
        target: { of: 'ratio', atLeast: 0.5 },
        notes: [side('ours', of('ours')), side('floor', of('floor')), `ratio by CPU time: ${cpuRatio.toFixed(2)}`],
      },
    ];
  },
};

const settleMs = 8000;

const restOf = async ({ pid }: Server): Promise<{ rssMb: number; note: string }> => {
  await delay(settleMs);
  const { rssMb, pssMb } = memoryOf(pid);
  return { rssMb, note: `RSS ${digits(rssMb)} MB, PSS ${digits(pssMb)} MB` };
};

const afterLoad = async (
  bench: Bench,
  server: Server,
  plan: Omit<LoadPlan, 'url'>,
): Promise<{ rssMb: number; note: string }> => {
  allRight(await bench.servers.load({ ...plan, url: server.url, extent: { seconds: 5 } }));
  return restOf(server);
};

export const memory: Benchmark = {
  name: 'api/memory',
  run: async (bench) => {
    const [ours, terminal, floor, plan] = await Promise.all([
      bench.servers.start(apiSpec),
      bench.servers.start({ ...apiSpec, name: 'api-pretty', env: { ...apiSpec.env, PLINTH_LOG_FORMAT: 'pretty' } }),
      bench.servers.start(floorSpec),
      readPlan(bench),
    ]);
    const [fresh, pretty, bare] = await Promise.all([restOf(ours), restOf(terminal), restOf(floor)]);
    const used = await afterLoad(bench, ours, plan);
    const usedBare = await afterLoad(bench, floor, plan);
    await Promise.all([ours.stop(), terminal.stop(), floor.stop()]);
    const row = (name: string, mine: typeof fresh, other: typeof bare): Row => ({
      name: `API at rest, ${name}`,
      ours: megabytes(mine.rssMb),
      floor: megabytes(other.rssMb),
      notes: [`ours: ${mine.note}`, `floor: ${other.note}`],
    });
    const target = { of: 'ours', atMost: 150 } as const;
    return [
      { ...row('just started', fresh, bare), target },
      { ...row('just started, readable log', pretty, bare), target },
      // V8 gives a grown heap back only when it works again: what this row shows is the load before it, and no target
      // fits.
      row(`${settleMs / 1000} s after 6 s of load`, used, usedBare),
    ];
  },
};
