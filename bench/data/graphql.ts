import { createHash } from 'node:crypto';
import { Pool } from 'pg';
import { wholeBody } from '#domain/data-api/answer-body.ts';
import type { DataDb, TextRow, Sql } from '#domain/data-api/data-api.ts';
import { createGraphql } from '#domain/data-api/graphql/graphql.ts';
import { introspectionOf, schemaOf } from '#domain/data-api/schema/introspect.ts';
import { answerByGraphqlJs } from '../floors/graphql-js.ts';
import { type Bench, type Benchmark, allRight, byTurns, digits, median, perSecond } from '../harness.ts';
import type { LoadPlan, LoadRequest, LoadResult } from '../load.ts';
import type { Server } from '../servers.ts';
import { cpuMicros, rate, side } from './sides.ts';
import { categories, databaseUrlOf, startScene } from './scene.ts';

const columns = '{ id category name price tags created_at }';

const requested = (path: string, query: string): LoadRequest[] =>
  Array.from({ length: categories }, (_, category) => ({
    method: 'POST',
    path,
    body: JSON.stringify({ query, variables: { c: category } }),
  }));

const ourQuery = `query ($c: Int!) { items(where: {category: $c}, order_by: {created_at: desc}, limit: 25) ${columns} }`;
const theirQuery = `query ($c: Int!) { items(category: $c, limit: 25) ${columns} }`;

const planOf = (server: Server, requests: readonly LoadRequest[], key: string): LoadPlan => ({
  url: server.url,
  headers: { 'content-type': 'application/json', apikey: key },
  requests,
  callers: 32,
  warmUp: { seconds: 1 },
  extent: { seconds: 3 },
  status: 200,
  mustHold: '"id":',
  pid: server.pid,
});

type Answer = (category: number) => Promise<string>;

const textRows = async (pool: Pool, { text, params }: Sql): Promise<readonly TextRow[]> => {
  const name = createHash('md5').update(text).digest('hex');
  const { rows } = await pool.query<(string | null)[]>({ name, text, values: [...params], rowMode: 'array' });
  return rows;
};

/** The engine over a plain pool, without roles. */
const ourAnswer = async (pool: Pool): Promise<Answer> => {
  const schema = schemaOf(await textRows(pool, introspectionOf('public')));
  const schemas = { get: () => Promise.resolve(schema), newer: () => Promise.resolve(null), changed: () => undefined };
  const data: DataDb = {
    one: async (_caller, _run, sql) => (await textRows(pool, sql))[0] ?? [],
    rows: (_caller, _run, sql) => textRows(pool, sql),
    transaction: () => Promise.reject(new Error('nothing is written here')),
  };
  const graphql = createGraphql();
  const caller = { projectId: 'bench', role: 'service', claims: '{}' } as const;
  const { signal } = new AbortController();
  return async (c) => {
    const request = { caller, query: ourQuery, variables: { c }, operationName: null, readOnly: false, signal };
    const answer = await graphql(request, { data, schemas });
    return `{"data":${wholeBody(answer.data ?? 'null')}}`;
  };
};

interface Spent {
  readonly rate: number;
  readonly cpuMicros: number;
}

/** As many at once as there are connections: the database is asked all the time, and no answer waits for another. */
const spend = async (answer: Answer): Promise<Spent> => {
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  let done = 0;
  const ask = async (): Promise<void> => {
    while (performance.now() - began < 2000) {
      const text = await answer(done % categories);
      if (!text.includes('"id":')) throw new Error(text.slice(0, 300));
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, ask));
  const { user, system } = process.cpuUsage(cpu);
  return { rate: (done / (performance.now() - began)) * 1000, cpuMicros: (user + system) / done };
};

const execution: Benchmark = {
  name: 'data/graphql',
  run: async (bench: Bench) => {
    const { api, project } = await startScene(bench, 'api-graphql');
    await api.stop();
    const pool = new Pool({ connectionString: databaseUrlOf(bench, project), max: 4 });
    const ours = await ourAnswer(pool);
    const theirs: Answer = async (c) => JSON.stringify(await answerByGraphqlJs(pool, theirQuery, { c }));
    await Promise.all([spend(ours), spend(theirs)]);
    const pairs = await byTurns(
      5,
      () => spend(ours),
      () => spend(theirs),
    );
    await pool.end();
    const cpu = (which: 'ours' | 'floor'): string =>
      `${which}: ${digits(median(pairs.map((pair) => pair[which].cpuMicros)))} µs of CPU a query`;
    return [
      {
        name: 'GraphQL: 25 of 100,000 rows by filter and order',
        ours: perSecond(median(pairs.map((pair) => pair.ours.rate))),
        floor: perSecond(median(pairs.map((pair) => pair.floor.rate))),
        ratio: median(pairs.map((pair) => pair.ours.rate / pair.floor.rate)),
        target: { of: 'ratio', atLeast: 2 },
        notes: [
          'floor: graphql-js `execute`, the document parsed once, rows from pg; both without HTTP',
          `${cpu('ours')}; ${cpu('floor')}`,
          `ratio by CPU time: ${median(pairs.map(({ ours: a, floor: b }) => b.cpuMicros / a.cpuMicros)).toFixed(2)}`,
        ],
      },
    ];
  },
};

const overHttp: Benchmark = {
  name: 'data/graphql-http',
  run: async (bench: Bench) => {
    const { api, project } = await startScene(bench, 'api-graphql');
    const bare = await bench.servers.start({
      name: 'bare-graphql',
      file: 'bench/floors/bare-graphql.ts',
      env: { BENCH_PROJECT_URL: databaseUrlOf(bench, project) },
    });
    const load = (server: Server, requests: readonly LoadRequest[]) => async () =>
      allRight(await bench.servers.load(planOf(server, requests, project.key)));
    const pairs = await byTurns(
      5,
      load(api, requested('/api/graphql', ourQuery)),
      load(bare, requested('/graphql', theirQuery)),
    );
    const of = (which: 'ours' | 'floor'): LoadResult[] => pairs.map((pair) => pair[which]);
    const cpuRatio = median(pairs.map((pair) => cpuMicros(pair.floor) / cpuMicros(pair.ours)));
    return [
      {
        name: 'POST /api/graphql: the same over HTTP',
        ours: perSecond(median(of('ours').map(rate))),
        floor: perSecond(median(of('floor').map(rate))),
        ratio: median(pairs.map((pair) => rate(pair.ours) / rate(pair.floor))),
        notes: [
          'floor: graphql-js behind Koa, and nothing else; ours with key check, log and all the rest',
          side('ours', of('ours')),
          side('graphql-js', of('floor')),
          `ratio by CPU time: ${cpuRatio.toFixed(2)}`,
        ],
      },
    ];
  },
};

/** GraphQL over a project's tables, against graphql-js over the same rows. */
export const graphqlBenchmarks: readonly Benchmark[] = [execution, overHttp];
