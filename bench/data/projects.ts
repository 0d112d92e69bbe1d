import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { signUp } from '../client.ts';
import {
  type Bench,
  type Benchmark,
  type Row,
  byTurns,
  count,
  digits,
  median,
  ms,
  percentile,
  spread,
} from '../harness.ts';
import { requiredIn } from '../settings.ts';
import { type Call, type Driven, drive } from './drive.ts';
import { type DataProject, apiSpec, createDataProject, runSql } from './scene.ts';

const projectCount = 120;
const hotCount = 10;
const budget = 40;
const seconds = 15;
const callers = 8;
const sampleMs = 100;

const smallTable = [
  `create table items (id int primary key, category int not null, name text not null)`,
  `insert into items select n, n % 10, 'item ' || n from generate_series(1, 1000) n`,
];

/** The n-th project is asked 1/n times as often as the first. */
const zipf = (total: number): (() => number) => {
  const weights = Array.from({ length: total }, (_, index) => 1 / (index + 1));
  const sum = weights.reduce((a, b) => a + b, 0);
  return () => {
    let left = Math.random() * sum;
    const found = weights.findIndex((weight) => (left -= weight) < 0);
    return found === -1 ? total - 1 : found;
  };
};

/** How many connections the roles of these projects have, looked at again and again. */
const watchConnections = async (
  bench: Bench,
  projects: readonly DataProject[],
  over: AbortSignal,
): Promise<{ max: number }> => {
  const client = new Client({ connectionString: requiredIn(bench.env, 'DATABASE_URL') });
  await client.connect();
  const names = projects.map(({ dbName }) => dbName);
  let max = 0;
  while (!over.aborted) {
    const { rows } = await client.query<{ open: number }>(
      `select count(*)::int as open from pg_stat_activity
       where datname = any ($1) and usename ~ '_(owner|api|service|reader)$'`,
      [names],
    );
    max = Math.max(max, rows[0]?.open ?? 0);
    await delay(sampleMs, undefined, { signal: over }).catch(() => undefined);
  }
  await client.end();
  return { max };
};

const makeProjects = async (url: string): Promise<DataProject[]> => {
  const user = await signUp(url);
  const projects: DataProject[] = [];
  for (let made = 0; made < projectCount; made += 1) {
    const project = await createDataProject(url, user);
    await runSql(url, user, project, ...smallTable);
    projects.push(project);
  }
  return projects;
};

const rowsOf = ({ latencies, errors, firstError }: Driven, max: number): Row[] => {
  const [hot, cold] = [latencies.get('hot') ?? [], latencies.get('cold') ?? []];
  const all = [...hot, ...cold];
  const notes = [
    `${callers} callers for ${seconds} s, ${digits(all.length / seconds)} requests/s, ${digits((cold.length / all.length) * 100)} % to the ${projectCount - hotCount} others`,
    ...(firstError === null ? [] : [`the first error: ${firstError}`]),
  ];
  const title = `${projectCount} projects, ${budget} connections, Zipf`;
  return [
    { name: `${title}: errors`, ours: count(errors), target: { of: 'ours', atMost: 0 }, notes },
    {
      name: `${title}: most connections`,
      ours: count(max),
      target: { of: 'ours', atMost: budget },
      notes: [`looked at each ${sampleMs} ms`],
    },
    {
      name: `${title}: p99`,
      ours: ms(percentile(all, 0.99)),
      target: { of: 'ours', atMost: 100 },
      notes: [spread(all)],
    },
    {
      name: `${title}: p99 of the ${hotCount} hottest`,
      ours: ms(percentile(hot, 0.99)),
      target: { of: 'ours', atMost: 10 },
      notes: [spread(hot), `the others: ${spread(cold)}`],
    },
  ];
};

export const manyProjects: Benchmark = {
  name: 'data/projects',
  run: async (bench) => {
    const api = await bench.servers.start(apiSpec('api-projects', { PLINTH_TENANT_CONNECTIONS: String(budget) }));
    const projects = await makeProjects(api.url);
    const pick = zipf(projects.length);
    const next = (): Call => {
      const index = pick();
      const path = `/v1/rest/items?category=eq.${index % 10}&order=id.desc&limit=25`;
      return { key: projects[index]?.key ?? '', path, group: index < hotCount ? 'hot' : 'cold' };
    };
    await drive({ url: api.url, callers, seconds: 3, next });
    const over = new AbortController();
    const watching = watchConnections(bench, projects, over.signal);
    const driven = await drive({ url: api.url, callers, seconds, next });
    over.abort();
    const { max } = await watching;
    return rowsOf(driven, max);
  },
};

const attackers = 4;
// The hundredth part of few requests is chance.
const quietRounds = 6;
// Some seconds of one core each, and a sort that does not fit into memory.
const heavySql = [
  'select count(*) from generate_series(1, 8000000) a where md5(a::text) like $$%abc%$$',
  'select count(*) from (select md5(n::text) x from generate_series(1, 2000000) n order by x desc offset 10) s',
];

/** Heavy SQL of one project, over and over, until it is told to end. */
const attack = async (
  {
    url,
    headers,
    project,
  }: { readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly project: DataProject },
  over: AbortSignal,
): Promise<number> => {
  let sent = 0;
  const one = async (index: number): Promise<void> => {
    while (!over.aborted) {
      sent += 1;
      const body = JSON.stringify({ sql: heavySql[(index + sent) % heavySql.length] });
      await fetch(`${url}/projects/${project.id}/db/query`, { method: 'POST', headers, body, signal: over })
        .then((response) => response.text())
        .catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: attackers }, (_, index) => one(index)));
  return sent;
};

export const quietProject: Benchmark = {
  name: 'data/neighbours',
  run: async (bench) => {
    const api = await bench.servers.start(apiSpec('api-neighbours'));
    const user = await signUp(api.url);
    const [quiet, noisy] = [await createDataProject(api.url, user), await createDataProject(api.url, user)];
    await runSql(api.url, user, quiet, ...smallTable);
    const next = (): Call => ({
      key: quiet.key,
      path: '/v1/rest/items?category=eq.3&order=id.desc&limit=25',
      group: 'quiet',
    });
    const measure = async (): Promise<readonly number[]> => {
      const { latencies, errors, firstError } = await drive({
        url: api.url,
        callers: 4,
        seconds: 6,
        pauseMs: 20,
        next,
      });
      if (errors > 0) throw new Error(`${errors} requests of the quiet project failed: ${firstError}`);
      return latencies.get('quiet') ?? [];
    };
    let sent = 0;
    const besideOne = async (): Promise<readonly number[]> => {
      const over = new AbortController();
      const attacking = attack({ url: api.url, headers: user.headers, project: noisy }, over.signal);
      try {
        return await measure();
      } finally {
        over.abort();
        sent += await attacking;
      }
    };
    await measure();
    const pairs = await byTurns(quietRounds, besideOne, measure);
    const [beside, alone] = [pairs.flatMap(({ ours }) => ours), pairs.flatMap(({ floor }) => floor)];
    const [ours, floor] = [percentile(beside, 0.99), percentile(alone, 0.99)];
    return [
      {
        name: 'p99 of a quiet project while another one runs heavy SQL',
        ours: ms(ours),
        floor: ms(floor),
        ratio: ours / floor,
        target: { of: 'ratio', atMost: 2 },
        notes: [
          `beside: ${spread(beside)}`,
          `alone: ${spread(alone)}`,
          `${attackers} at a time, ${sent} statements; p50 ratio ${digits(median(beside) / median(alone))}`,
        ],
      },
    ];
  },
};
