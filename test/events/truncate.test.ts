import test from 'ava';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { tableSubscriptionsOf } from '#domain/events/events.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { asOwner, projectWith, withServers } from '../database/limits-scene.ts';
import { makeOld, upgradeAll } from '../database/old-database.ts';
import { makeDatabase } from '../database/guard-scene.ts';

const platform = usePlatform(test);

/** The events of statements where these names are subscribed to. */
const leftBy = async (patterns: readonly string[], statements: readonly string[]): Promise<string[]> => {
  const project = await projectWith(platform());
  const { db } = platform();
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db, servers }, project.id, tableSubscriptionsOf(patterns)),
  );
  await db.query('delete from event_sources where project_id = $1', [project.id]);
  await asOwner(platform(), project, async (owner) => {
    for (const sql of statements) await owner.query(sql);
  });
  return asAdmin(project.dbName, async (admin) => {
    const sql = 'select table_name, op, row from plinth.outbox order by id';
    return (await admin.query(sql)).rows.map(({ table_name, op, row }) => `${table_name} ${op} ${row}`);
  });
};

const tables = [
  'create table t (x int primary key); create table child (x int references t); create table other (x int)',
  'create table p (x int) partition by list (x)',
  'create table p1 partition of p for values in (1)',
  'create table p2 partition of p for values in (2)',
];

test('TRUNCATE leaves one event for each table that somebody subscribes to, without rows', async (t) => {
  const left = await leftBy(
    ['table.t.TRUNCATE', 'table.child.*', 'table.p.TRUNCATE', 'table.other.DELETE'],
    [...tables, 'truncate t cascade', 'truncate other', 'truncate p1', 'truncate p', 'begin; truncate p; rollback'],
  );
  t.deepEqual(
    left.toSorted((a, b) => a.localeCompare(b)),
    ['child TRUNCATE null', 'p TRUNCATE null', 't TRUNCATE null'],
  );
});

test('who subscribes to everything hears of TRUNCATE, who subscribes to other operations does not', async (t) => {
  for (const pattern of ['*', 'db.*', 'table.*'])
    t.deepEqual(await leftBy([pattern], [...tables, 'truncate other']), ['other TRUNCATE null'], pattern);
  t.deepEqual(await leftBy(['db.delete', 'db.insert', 'table.other.DELETE'], [...tables, 'truncate other']), []);
});

test('a webhook is told of TRUNCATE once, under its one name, with data null', async (t) => {
  const receiver = await receiverFor(t);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const call = (path: string, body: object) =>
    client.call('POST', `/projects/${project.id}${path}`, { token: user.token, body });
  const webhook = { url: receiver.url, events: ['*', 'table.t.TRUNCATE', 'db.delete'] };
  t.is((await call('/integrations/webhooks', webhook)).status, 201);
  await call('/db/query', { sql: 'create table t (x int)' });
  await call('/db/query', { sql: 'truncate t' });
  const [received] = await receiver.when(1);
  t.like(JSON.parse(String(received?.body)), { event: 'table.t.TRUNCATE', data: null });
  t.is(received?.headers['x-webhook-event'], 'table.t.TRUNCATE');
});

test('a database that was told of subscriptions before tells of TRUNCATE after its upgrade', async (t) => {
  const database = await makeDatabase(platform());
  await makeOld(database, 18);
  const reported = (sql: string) => asAdmin(database.name, async (admin) => (await admin.query(sql)).rows);
  await reported('insert into plinth.subscriptions values (null, null)');
  await database.query('owner', 'create table t (x int)');
  t.is((await upgradeAll(platform())).done, 1);
  await database.query('owner', 'truncate t');
  t.deepEqual(await reported('select op from plinth.outbox'), [{ op: 'TRUNCATE' }]);
});
