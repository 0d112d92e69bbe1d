import test from 'ava';
import { eventId } from '#domain/events/outbox.ts';
import { findSource, setTableSubscriptions } from '#domain/events/subscriptions.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { createRelayConnections } from '#workers/relay/connections.ts';
import { drainSource } from '#workers/relay/relay.ts';
import { asOwner, projectWith, withServers } from '../database/limits-scene.ts';

// The worker that makes the project stops, so that only the tests take events.
const platform = usePlatform(test, { worker: false });

let project: TestProject;

test.before('a project with a table that somebody subscribes to', async () => {
  const stopWorker = await platform().startWorker();
  project = await projectWith(platform(), { rows: null });
  await stopWorker();
  await asOwner(platform(), project, (owner) => owner.query('create table t (x bigint)'));
  await keepEventsOf(platform().db, project.id);
  await subscribe();
});

const subscribe = (subscriptions = [{ table: 't', op: null }]): Promise<void> =>
  withServers(platform(), (servers) =>
    setTableSubscriptions({ db: platform().db, servers }, project.id, subscriptions),
  );

const insert = (sql: string) => asOwner(platform(), project, (owner) => owner.query(sql));

const left = () =>
  asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query<{ id: string; at: number }>(
      'select id::text as id, extract(epoch from ts)::float8 * 1000 as at from plinth.outbox order by plinth.outbox.id',
    );
    return rows;
  });

const kept = () =>
  platform().db.query<{ id: string; event: string; data: string }>(
    'select id, event, data::text as data from outbox_events where project_id = $1 order by id',
    [project.id],
  );

const clear = () => platform().db.query('delete from outbox_events where project_id = $1', [project.id]);

const unsubscribedLongAgo = () =>
  platform().db.query(`update event_sources set changed_at = now() - interval '11 minutes' where project_id = $1`, [
    project.id,
  ]);

const drain = async (db: Queryable = platform().db, log = memoryLog().log): Promise<boolean> => {
  const source = await findSource(platform().db, project.id);
  if (source === undefined) throw new Error('there is no source');
  return withServers(platform(), async (servers) => {
    const connections = createRelayConnections({ servers, max: 1 });
    try {
      while (await drainSource({ db, connections, log }, source));
      return false;
    } finally {
      await connections.close();
    }
  });
};

test.serial('what was kept but not yet removed when its taker died is kept once', async (t) => {
  await clear();
  await insert('insert into t select generate_series(1, 450)');
  const ids = (await left()).map((row) => eventId(project.id, row));
  const real = platform().db;
  let inserts = 0;
  const dying: Queryable = {
    query: async (sql, values, name) => {
      const rows = await real.query(sql, values, name);
      if (name === 'keep-table-events') inserts += 1;
      if (inserts === 2) throw new Error('died');
      return rows as never;
    },
  };
  await t.throwsAsync(drain(dying), { message: 'died' });
  t.is((await left()).length, 200, 'the first batch is gone for good');
  t.is((await kept()).length, 450);
  t.false(await drain());
  t.deepEqual((await kept()).map(({ id }) => id).toSorted(), ids.toSorted());
  t.deepEqual(await left(), []);
});

test.serial('several that drain at once take each event once, and wait for nobody', async (t) => {
  await clear();
  await insert('insert into t select generate_series(1, 3000)');
  await asAdmin(project.dbName, async (holder) => {
    await holder.query('begin; select from plinth.outbox order by plinth.outbox.id limit 100 for update');
    await Promise.all([drain(), drain(), drain()]);
    t.is((await kept()).length, 2900);
    await holder.query('rollback');
  });
  await drain();
  t.is((await kept()).length, 3000);
});

test.serial('events that a transaction commits late are taken although later ones have been', async (t) => {
  await clear();
  await asOwner(platform(), project, async (late) => {
    await late.query('begin; insert into t values (1)');
    await insert('insert into t values (2)');
    await drain();
    t.deepEqual(
      (await kept()).map(({ data }) => data),
      ['{"row":{"x":2}}'],
    );
    await late.query('commit');
  });
  await drain();
  t.is((await kept()).length, 2);
});

test.serial('a project’s outbox that fills up is warned of', async (t) => {
  await clear();
  await insert('insert into t select generate_series(1, 60)');
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.outbox_limits set max_rows = 100'));
  const { log, text } = memoryLog();
  const source = await findSource(platform().db, project.id);
  const stuck: Queryable = { query: () => Promise.resolve([]) };
  await asAdmin(project.dbName, async (holder) => {
    await holder.query('begin; select from plinth.outbox for update');
    await withServers(platform(), async (servers) => {
      const connections = createRelayConnections({ servers, max: 0 });
      await drainSource({ db: stuck, connections, log }, source as never);
    });
    await holder.query('rollback');
  });
  t.regex(text(), /the outbox of a project fills up/);
  t.regex(text(), new RegExp(project.id));
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.outbox_limits set max_rows = 1000000'));
  await drain();
});

test.serial('without subscriptions and events a project is no longer looked into; with them it is again', async (t) => {
  await clear();
  await insert('insert into t values (5)');
  await subscribe([]);
  await insert('insert into t values (6)');
  await drain();
  t.deepEqual(
    (await kept()).map(({ data }) => data),
    ['{"row":{"x":5}}'],
  );
  t.not(await findSource(platform().db, project.id), undefined, 'a statement may still be at work');
  await unsubscribedLongAgo();
  await drain();
  t.is(await findSource(platform().db, project.id), undefined);
  await subscribe();
  t.not(await findSource(platform().db, project.id), undefined);
});

test.serial(
  'a project is looked into while a transaction that wrote events is not over, however long ago they were',
  async (t) => {
    await clear();
    await asOwner(platform(), project, async (late) => {
      await late.query('begin; insert into t values (7)');
      await subscribe([]);
      await unsubscribedLongAgo();
      await drain();
      t.not(await findSource(platform().db, project.id), undefined);
      await late.query('commit');
    });
    await drain();
    t.is((await kept()).length, 1);
    t.is(await findSource(platform().db, project.id), undefined);
    await subscribe();
  },
);

test.serial('an event that cannot be kept is set aside with a warning, and the others are taken', async (t) => {
  await clear();
  await insert('insert into t values (1)');
  await asAdmin(project.dbName, (admin) =>
    admin.query(`insert into plinth.outbox (table_name, op, row) values ('t', 'INSERT', '{not json')`),
  );
  await insert('insert into t values (2)');
  const { log, text } = memoryLog();
  t.false(await drain(platform().db, log));
  t.deepEqual((await kept()).map(({ data }) => data).toSorted(), ['{"row":{"x":1}}', '{"row":{"x":2}}']);
  t.deepEqual(await left(), []);
  t.regex(text(), /could not be kept and was set aside/);
  const failed = await asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query('select table_name, op, row, reason from plinth.outbox_failed');
    return rows;
  });
  t.deepEqual(failed, [
    { table_name: 't', op: 'INSERT', row: '{not json', reason: 'invalid input syntax for type json' },
  ]);
});

test.serial('an event is not set aside because the control database fails', async (t) => {
  await clear();
  await insert('insert into t values (1)');
  const down: Queryable = { query: () => Promise.reject(new Error('it is down')) };
  await t.throwsAsync(drain(down), { message: 'it is down' });
  t.is((await left()).length, 1);
  await drain();
  t.is((await kept()).length, 1);
});

test.serial('large rows are taken a few at a time, quotes and all, and too large ones are refused', async (t) => {
  await clear();
  await insert('create table big (s text)');
  await subscribe([{ table: 'big', op: null }]);
  await insert(`insert into big select repeat('"ä', 500000) from generate_series(1, 5)`);
  await insert(`insert into big values (repeat('"', 4100000))`);
  for (const sql of [`insert into big values (repeat('"', 20000000))`, `update big set s = repeat('x', 3000000)`]) {
    const refused = await t.throwsAsync(insert(sql), { message: /^event_too_large: .*8388608 bytes at most/ });
    t.like(refused, { code: 'PLE02' });
  }
  const sizes: number[] = [];
  const watched: Queryable = {
    query: (sql, values = [], name) => {
      if (name === 'keep-table-events') sizes.push((values[3] as Buffer).length);
      return platform().db.query(sql, values, name);
    },
  };
  await drain(watched);
  t.true(sizes.length >= 3);
  t.deepEqual(
    sizes.filter((size) => size > 4.2 * 1024 * 1024).map((size) => Math.round(size / 100_000)),
    [82],
    'a larger one goes alone',
  );
  const events = await kept();
  t.deepEqual(
    events.map(({ data }) => (JSON.parse(data) as { row: { s: string } }).row.s.length).toSorted((a, b) => a - b),
    [1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 4_100_000],
  );
  await subscribe();
});
