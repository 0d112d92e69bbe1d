import { type Bench, type Benchmark, type Pair, type Row, allRight, byTurns, median, perSecond } from '../harness.ts';
import type { LoadPlan, LoadRequest, LoadResult } from '../load.ts';
import type { Server } from '../servers.ts';
import { cpuMicros, rate, side } from './sides.ts';
import { type Scene, categories, databaseUrlOf, rowCount, startScene } from './scene.ts';

const rounds = 5;
const callers = 32;

/** The request to one of the two sides. */
interface Side {
  readonly server: Server;
  readonly headers: Readonly<Record<string, string>>;
  readonly requests: readonly LoadRequest[];
}

const planOf = ({ server, headers, requests }: Side, status: number): LoadPlan => ({
  url: server.url,
  headers: { 'content-type': 'application/json', ...headers },
  requests,
  callers,
  warmUp: { seconds: 1 },
  extent: { seconds: 3 },
  status,
  mustHold: '"id":',
  pid: server.pid,
});

const measure = (bench: Bench, ours: Side, floor: Side, status: number): Promise<Pair<LoadResult>[]> => {
  const load = (of: Side) => async () => allRight(await bench.servers.load(planOf(of, status)));
  return byTurns(rounds, load(ours), load(floor));
};

const rowOf = (name: string, pairs: readonly Pair<LoadResult>[], atLeast: number, floorName = 'floor'): Row => {
  const of = (which: 'ours' | 'floor'): LoadResult[] => pairs.map((pair) => pair[which]);
  const cpuRatio = median(pairs.map((pair) => cpuMicros(pair.floor) / cpuMicros(pair.ours)));
  return {
    name,
    ours: perSecond(median(of('ours').map(rate))),
    floor: perSecond(median(of('floor').map(rate))),
    ratio: median(pairs.map((pair) => rate(pair.ours) / rate(pair.floor))),
    target: { of: 'ratio', atLeast },
    notes: [side('ours', of('ours')), side(floorName, of('floor')), `ratio by CPU time: ${cpuRatio.toFixed(2)}`],
  };
};

const gets = (total: number, path: (index: number) => string): LoadRequest[] =>
  Array.from({ length: total }, (_, index) => ({ method: 'GET', path: path(index) }));

const posts = (path: string): LoadRequest[] =>
  Array.from({ length: 100 }, (_, index) => ({
    method: 'POST',
    path,
    body: JSON.stringify({
      category: categories + index,
      name: `new item ${index}`,
      price: '12.50',
      tags: ['new'],
      attributes: { size: index },
    }),
  }));

// Spread over the table, so that no single page of it is all that is read.
const someId = (index: number): number => ((index * 7919) % rowCount) + 1;

interface Comparison {
  readonly name: string;
  readonly title: string;
  readonly ours: readonly LoadRequest[];
  readonly floor: readonly LoadRequest[];
  readonly status: number;
  readonly atLeast: number;
}

const comparisons: readonly Comparison[] = [
  {
    name: 'data/list',
    title: 'GET /v1/rest/{table}: 25 of 100,000 rows by filter and order',
    ours: gets(categories, (index) => `/v1/rest/items?category=eq.${index}&order=created_at.desc&limit=25`),
    floor: gets(categories, (index) => `/items?category=${index}`),
    status: 200,
    atLeast: 0.75,
  },
  {
    name: 'data/get',
    title: 'GET /api/data/{table}/{id}',
    ours: gets(1000, (index) => `/api/data/items/${someId(index)}`),
    floor: gets(1000, (index) => `/items/${someId(index)}`),
    status: 200,
    atLeast: 0.7,
  },
  {
    name: 'data/insert',
    title: 'POST /v1/rest/{table}, the row answered',
    ours: posts('/v1/rest/items'),
    floor: posts('/items'),
    status: 201,
    atLeast: 0.7,
  },
];

const startFloor = (bench: Bench, { project }: Scene): Promise<Server> =>
  bench.servers.start({
    name: 'bare-data',
    file: 'bench/floors/bare-data.ts',
    env: { BENCH_PROJECT_URL: databaseUrlOf(bench, project) },
  });

const againstFloor = ({ name, title, ours, floor, status, atLeast }: Comparison): Benchmark => ({
  name,
  run: async (bench) => {
    const scene = await startScene(bench, 'api-data');
    const bare = await startFloor(bench, scene);
    const pairs = await measure(
      bench,
      { server: scene.api, headers: { apikey: scene.project.key }, requests: ours },
      { server: bare, headers: {}, requests: floor },
      status,
    );
    return [rowOf(title, pairs, atLeast)];
  },
});

const claims: Benchmark = {
  name: 'data/claims',
  run: async (bench) => {
    const { api, project } = await startScene(bench, 'api-data', { policies: true });
    const requests = gets(categories, (index) => `/v1/rest/items?category=eq.${index}&order=created_at.desc&limit=25`);
    const pairs = await measure(
      bench,
      { server: api, headers: { apikey: project.publishableKey }, requests },
      { server: api, headers: { apikey: project.key }, requests },
      200,
    );
    return [rowOf('the same list as anon: role, claims and a policy that reads them', pairs, 0.6, 'as the project')];
  },
};

/** Requests to one table, against Koa and pg alone. */
export const restBenchmarks: readonly Benchmark[] = [...comparisons.map(againstFloor), claims];
