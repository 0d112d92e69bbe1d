import test from 'ava';
import type { Client } from 'pg';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';
import { createRelayConnections } from '#workers/relay/connections.ts';
import { drainSource } from '#workers/relay/relay.ts';
import { projectWith, withServers } from '../database/limits-scene.ts';

const platform = usePlatform(test);

const pidOf = async (client: Client): Promise<number> =>
  (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid ?? 0;

/** Three databases of projects, and how many connections were opened. */
const scene = async (work: (about: Scene) => Promise<void>): Promise<void> => {
  const { client, db } = platform();
  const user = await client.signUp();
  const projects = [
    await client.createProject(user),
    await client.createProject(user),
    await client.createProject(user),
  ];
  const places = await db.query<{ server_id: string; db_name: string }>(
    'select server_id, db_name from projects where id = any ($1) order by id',
    [projects.map(({ id }) => id)],
  );
  await withServers(platform(), async (servers) => {
    let opened = 0;
    const connectTo: DatabaseServers['connectTo'] = (...where) => {
      opened += 1;
      return servers.connectTo(...where);
    };
    const [first, second, third] = places;
    if (!first || !second || !third) throw new Error('there are no databases');
    await work({ servers: { connectTo }, opened: () => opened, first, second, third });
  });
};

interface Scene {
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  readonly opened: () => number;
  readonly first: { readonly server_id: string; readonly db_name: string };
  readonly second: { readonly server_id: string; readonly db_name: string };
  readonly third: { readonly server_id: string; readonly db_name: string };
}

const isGone = async (pid: number): Promise<boolean> =>
  asAdmin(
    'postgres',
    async (admin) => (await admin.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 0,
  );

test('a connection is used again, and the least recently used is closed when there are too many', (t) =>
  scene(async ({ servers, opened, first, second, third }) => {
    const connections = createRelayConnections({ servers, max: 2 });
    const pid = await connections.use(first, pidOf);
    t.is(await connections.use(first, pidOf), pid);
    const other = await connections.use(second, pidOf);
    t.is(await connections.use(first, pidOf), pid);
    t.is(opened(), 2);
    await connections.use(third, pidOf);
    t.is(await connections.use(first, pidOf), pid, 'it was used after the other');
    t.true(await until(() => isGone(other)));
    await connections.close();
    t.true(await until(() => isGone(pid)));
    t.is(opened(), 3);
  }));

test('work on a kept connection that has broken is done on a new one', (t) =>
  scene(async ({ servers, opened, first }) => {
    const connections = createRelayConnections({ servers, max: 2 });
    const pid = await connections.use(first, pidOf);
    await asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1)', [pid]));
    t.not(await connections.use(first, pidOf), pid);
    let requested = 0;
    const another = await connections.use(first, async (client) => {
      requested += 1;
      if (requested === 1) await client.query('select pg_terminate_backend(pg_backend_pid())');
      return pidOf(client);
    });
    t.is(requested, 2);
    t.true(another > 0);
    t.is(opened(), 3);
    await connections.close();
  }));

test('after an error a connection is closed, and the error is the caller’s', (t) =>
  scene(async ({ servers, opened, first }) => {
    const connections = createRelayConnections({ servers, max: 2 });
    const pid = await connections.use(first, pidOf);
    await t.throwsAsync(
      connections.use(first, (client) => client.query('begin; select 1/0')),
      { message: /division by zero/ },
    );
    t.not(await connections.use(first, pidOf), pid);
    t.is(opened(), 2);
    await connections.close();
  }));

test('two who use one database at once have a connection each', (t) =>
  scene(async ({ servers, first }) => {
    const connections = createRelayConnections({ servers, max: 2 });
    const pids = await connections.use(first, async (client) => [
      await pidOf(client),
      await connections.use(first, pidOf),
    ]);
    t.not(pids[0], pids[1]);
    await connections.close();
  }));

test('a turn takes 1,000 events at most, and says that there are more', async (t) => {
  const { db } = platform();
  const project = await projectWith(platform(), { rows: null });
  await keepEventsOf(db, project.id);
  const rowsOf = (sql: string) => asAdmin(project.dbName, async (admin) => (await admin.query(sql)).rows.length);
  await rowsOf(`insert into plinth.outbox (table_name, op, row)
    select 't', 'INSERT', json_build_object('n', n) from generate_series(1, 2500) n`);
  const [place] = await db.query('select server_id, db_name from projects where id = $1', [project.id]);
  await withServers(platform(), async (servers) => {
    const connections = createRelayConnections({ servers, max: 1 });
    const source = { ...(place as object), project_id: project.id, changed_at: 'now' };
    const turn = () => drainSource({ db, connections, log: memoryLog().log }, source as never);
    t.true(await turn());
    const left = await rowsOf('select from plinth.outbox');
    t.true(left >= 1500 && left < 2500, String(left));
    while (await turn());
    await connections.close();
  });
  t.is((await db.query('select from outbox_events where project_id = $1', [project.id])).length, 2500);
});
