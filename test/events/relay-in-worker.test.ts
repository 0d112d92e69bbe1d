import test from 'ava';
import { Redis } from 'ioredis';
import { createDirtyMarks } from '#domain/events/marks.ts';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';
import { asOwner, projectWith, withServers } from '../database/limits-scene.ts';

const platform = usePlatform(test);

let project: TestProject;
let redis: Redis;

test.before('a project with a table that somebody subscribes to', async () => {
  redis = new Redis(platform().config.REDIS_URL);
  project = await projectWith(platform(), { rows: null });
  await insert('create table t (x bigint)');
  await keepEventsOf(platform().db, project.id);
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db: platform().db, servers }, project.id, [{ table: 't', op: null }]),
  );
});

test.after.always('the connection to Redis closes', () => redis?.disconnect());

const insert = (sql: string) => asOwner(platform(), project, (owner) => owner.query(sql));

const left = () => asAdmin(project.dbName, async (admin) => (await admin.query('select from plinth.outbox')).rows);

const kept = () =>
  platform().db.query<{ id: string; event: string; data: string }>(
    'select id, event, data::text as data from outbox_events where project_id = $1 order by id',
    [project.id],
  );

const clear = () => platform().db.query('delete from outbox_events where project_id = $1', [project.id]);

test.serial('a marked project’s events arrive with exact rows; many marks are one', async (t) => {
  const { config } = platform();
  const { markDirty } = createDirtyMarks({ redis, prefix: config.PLINTH_REDIS_PREFIX, log: memoryLog().log });
  await insert(`insert into t values (9007199254740995)`);
  await insert(`update t set x = x + 1`);
  const marks = Array.from({ length: 100 }, () => markDirty(project.id));
  t.is(new Set(marks).size, 1);
  await Promise.all(marks);
  const events = await until(async () => {
    const rows = await kept();
    return rows.length === 2 && rows;
  });
  t.deepEqual(events.map(({ event, data }) => `${event} ${data}`).toSorted(), [
    'table.t.INSERT {"row":{"x":9007199254740995}}',
    'table.t.UPDATE {"row":{"x":9007199254740996},"old":{"x":9007199254740995}}',
  ]);
  await until(async () => (await left()).length === 0);
});

test.serial('events that nobody said anything of are found', async (t) => {
  await clear();
  await insert('insert into t select generate_series(1, 1200)');
  await platform().db.query(`update event_sources set looked_at = now() - interval '1 hour'`);
  const events = await until(async () => {
    const rows = await kept();
    return rows.length === 1200 && rows;
  });
  t.is(new Set(events.map(({ data }) => data)).size, 1200);
});
