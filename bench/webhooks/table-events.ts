import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { type Bench, type Benchmark, type Row, digits, ms, perSecond, percentile, spread } from '../harness.ts';
import { type Child, withChildren } from '../jobs/child.ts';
import { onControlDatabase } from '../jobs/database.ts';
import { removeKeys } from '../jobs/round.ts';
import { type Account, addWebhook, openAccount, runSql } from '../noise/account.ts';
import { startPlatform } from '../noise/platform.ts';
import type { Slice, SlicePlan } from '../noise/shapes.ts';

const bulkProjects = 5;
/** In each of two tables, as the plan Free allows. */
const rowsPerTable = 10_000;
const bulkEvents = bulkProjects * 2 * rowsPerTable;
const warmUpSeconds = 3;
const sliceSeconds = 12;
/** For all deliveries to be made; a tenth of this is usual. */
const patienceMs = 240_000;

const inserting = `with one as (insert into one select n, repeat('x', 200) from generate_series(1, ${rowsPerTable}) n)
  insert into two select n, repeat('x', 200) from generate_series(1, ${rowsPerTable}) n`;

const openBulkProject = async (url: string, receiver: string): Promise<Account> => {
  const account = await openAccount(url, 'free');
  await runSql(account, 'create table one (n bigint, content text)', 'create table two (n bigint, content text)');
  await addWebhook(account, receiver, ['table.one.INSERT', 'table.two.INSERT']);
  return account;
};

/** Answers at once; the rate of each webhook bounds how often it is asked. */
const withReceiver = async <T>(work: (url: string) => Promise<T>): Promise<T> => {
  const server = createServer((request, response) => {
    request.resume();
    response.end('ok');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
};

/** Inserts of the quiet project, one at a time: milliseconds from the request until its webhook has come. */
const latenciesOf = async (victim: Child, seconds: number): Promise<readonly number[]> => {
  const slice = await victim.ask<Slice>('measure', { victim: 'webhook', seconds } satisfies SlicePlan);
  if (slice.errors > 0) throw new Error(`${slice.errors} inserts were not heard of: ${slice.firstError}`);
  return slice.latencies;
};

/** Seconds from the first of the projects' events to the moment when the last one had its delivery. */
const untilDelivering = async (databaseUrl: string, projectIds: readonly string[], bench: Bench): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const until = performance.now() + patienceMs;
    while (performance.now() < until) {
      const { rows } = await client.query<{ done: number; seconds: number }>(
        `select count(fanned_at)::int as done, extract(epoch from max(fanned_at) - min(created_at))::float8 as seconds
         from outbox_events where project_id = any ($1::uuid[])`,
        [projectIds],
      );
      const [row] = rows;
      if (row !== undefined && row.done >= bulkEvents) return row.seconds;
      await delay(500, undefined, { signal: bench.signal });
    }
    throw new Error(`not all of ${bulkEvents} events had deliveries in time`);
  } finally {
    await client.end();
  }
};

interface Measured {
  readonly alone: readonly number[];
  readonly beside: readonly number[];
  readonly bulkSeconds: number;
}

const rowsOf = ({ alone, beside, bulkSeconds }: Measured): readonly Row[] => [
  {
    name: 'table events: from an insert by REST to its webhook, p50',
    ours: ms(percentile(alone, 0.5)),
    target: { of: 'ours', atMost: 250 },
    notes: [`${alone.length} inserts, one at a time, by API, outbox, relay, fan-out and delivery; ${spread(alone)} ms`],
  },
  {
    name: 'table events: p90 of a quiet project beside five that insert 20,000 rows each',
    ours: ms(percentile(beside, 0.9)),
    floor: ms(percentile(alone, 0.9)),
    ratio: percentile(beside, 0.9) / percentile(alone, 0.9),
    target: { of: 'ratio', atMost: 3 },
    notes: [`alone: ${spread(alone)} ms; beside: ${beside.length} inserts, ${spread(beside)} ms`],
  },
  {
    name: 'table events: of those five projects, from the outbox until each has its delivery',
    ours: perSecond(bulkEvents / bulkSeconds),
    notes: [`${digits(bulkEvents)} events in ${digits(bulkSeconds)} s, at a low priority`],
  },
];

/** Writes to tables, with all that lies between them and their webhooks: the other rows begin behind the relay. */
const measure = async (bench: Bench, databaseUrl: string, start: (program: string) => Child): Promise<Measured> => {
  const platform = await startPlatform(bench, databaseUrl);
  try {
    return await withReceiver(async (receiver) => {
      const victim = start('victim');
      await victim.ask('prepare', platform.url);
      const bulk: Account[] = [];
      for (let n = 0; n < bulkProjects; n += 1) bulk.push(await openBulkProject(platform.url, receiver));
      await latenciesOf(victim, warmUpSeconds);
      const alone = await latenciesOf(victim, sliceSeconds);
      const inserted = Promise.all(bulk.map((account) => runSql(account, inserting)));
      const [beside] = await Promise.all([latenciesOf(victim, sliceSeconds), inserted]);
      const ids = bulk.map(({ projectId }) => projectId);
      return { alone, beside, bulkSeconds: await untilDelivering(databaseUrl, ids, bench) };
    });
  } finally {
    await bench.servers.stopAll();
    await removeKeys(bench, platform.prefix);
  }
};

export const tableEvents: Benchmark = {
  name: 'webhooks/table-events',
  run: (bench) =>
    onControlDatabase(bench, (databaseUrl) =>
      withChildren(bench, async (start) => rowsOf(await measure(bench, databaseUrl, start)), 'noise'),
    ),
};
