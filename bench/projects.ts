import { randomBytes } from 'node:crypto';
import { Client, escapeIdentifier } from 'pg';
import { type BenchUser, createProject, projectBody, signUp } from './client.ts';
import {
  type Bench,
  type Benchmark,
  allRight,
  byTurns,
  count,
  digits,
  median,
  ms,
  percentile,
  spread,
} from './harness.ts';
import type { LoadPlan } from './load.ts';
import { requiredIn } from './settings.ts';

const creations = (url: string, user: BenchUser, callers: number, total: number): LoadPlan => ({
  url,
  headers: user.headers,
  requests: Array.from({ length: total }, () => ({
    method: 'POST',
    path: '/projects',
    body: JSON.stringify(projectBody()),
  })),
  callers,
  warmUp: { requests: 0 },
  extent: { requests: total },
  status: 201,
  mustHold: '"status":"active"',
});

const withAdmin = async <T>(bench: Bench, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new Client({ connectionString: requiredIn(bench.env, 'DATABASE_URL') });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};

/** The template that the platform copies project databases from. */
const templateOf = async (client: Client): Promise<string> => {
  const { rows } = await client.query<{ datname: string }>(
    `select datname from pg_database where datname ~ '^plinth_template_[0-9a-f]+$' order by oid desc limit 1`,
  );
  if (rows[0] === undefined) throw new Error('there is no template database');
  return rows[0].datname;
};

/** The floor: nothing but the copy of the template, in ms. */
const bareCopies = async (client: Client, template: string, total: number): Promise<number[]> => {
  const times: number[] = [];
  for (let copy = 0; copy < total; copy += 1) {
    const name = `bench_${randomBytes(6).toString('hex')}`;
    const began = performance.now();
    await client.query(`create database ${escapeIdentifier(name)} template ${escapeIdentifier(template)}`);
    times.push(performance.now() - began);
  }
  return times;
};

const [rounds, perRound] = [6, 5];

export const projectCreate: Benchmark = {
  name: 'projects/create',
  run: async (bench) => {
    const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
    const user = await signUp(url);
    const began = performance.now();
    await createProject(url, user);
    const first = performance.now() - began;
    const create = async (): Promise<readonly number[]> =>
      allRight(await bench.servers.load(creations(url, user, 1, perRound))).latencies;
    const pairs = await withAdmin(bench, async (client) => {
      const template = await templateOf(client);
      return byTurns(rounds, create, () => bareCopies(client, template, perRound));
    });
    const ours = pairs.flatMap((pair) => pair.ours);
    const floor = pairs.flatMap((pair) => pair.floor);
    return [
      {
        name: 'creating a project, p50',
        ours: ms(median(ours)),
        floor: ms(median(floor)),
        ratio: median(ours) / median(floor),
        target: { of: 'ours', atMost: 300 },
        notes: [
          `ours: ${ours.length} one after another, ${spread(ours)} ms`,
          `floor: \`create database … template …\` alone, ${spread(floor)} ms`,
          `the first project of the benchmark, before the counted ones: ${digits(first)} ms`,
        ],
      },
    ];
  },
};

const atOnce = 20;

export const projectCreateAtOnce: Benchmark = {
  name: 'projects/create-20-at-once',
  run: async (bench) => {
    const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
    const user = await signUp(url);
    await createProject(url, user);
    const result = await bench.servers.load(creations(url, user, atOnce, atOnce));
    const { errors, latencies, seconds } = result;
    const worst = latencies.length > 0 ? percentile(latencies, 1) : Number.NaN;
    return [
      {
        name: `creating ${atOnce} projects at once, errors`,
        ours: count(errors),
        target: { of: 'ours', atMost: 0 },
        notes: [
          `all done in ${digits(seconds)} s; each waited ${spread(latencies)} ms, the longest ${digits(worst)} ms`,
          ...(result.firstError === null ? [] : [`the first error: ${result.firstError}`]),
        ],
      },
    ];
  },
};
