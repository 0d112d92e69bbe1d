import test from 'ava';
import { type SetAside, eventId, takeEvents } from '#domain/events/outbox.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { projectWith } from '../database/limits-scene.ts';

const platform = usePlatform(test);

const scene = async () => {
  const project = await projectWith(platform());
  const { db } = platform();
  await keepEventsOf(db, project.id);
  const rowsOf = <T>(sql: string): Promise<T[]> =>
    asAdmin(project.dbName, async (client) => (await client.query(sql)).rows as T[]);
  /** The events that were set aside, and the bytes that came over the connection meanwhile. */
  const take = () =>
    asAdmin(project.dbName, async (client) => {
      const reported: SetAside[] = [];
      const onSetAside = (event: SetAside): void => void reported.push(event);
      const taking = { client, db, projectId: project.id, onSetAside };
      while ((await takeEvents(taking)) > 0);
      const connection: unknown = Reflect.get(client, 'connection');
      const stream: unknown = Reflect.get(connection as object, 'stream');
      return { reported, bytes: Number(Reflect.get(stream as object, 'bytesRead')) };
    });
  const kept = async (): Promise<string[]> => {
    const sql = 'select data::text as data from outbox_events where project_id = $1 order by id';
    return (await db.query<{ data: string }>(sql, [project.id])).map(({ data }) => data);
  };
  return { take, kept, rowsOf };
};

const write = (row: string, more: Readonly<Record<string, string>> = {}): string => {
  const values = { table_name: `'t'`, op: `'INSERT'`, row, ...more };
  return `insert into plinth.outbox (${Object.keys(values).join(', ')}) values (${Object.values(values).join(', ')})`;
};

test('a row of 30 MB is set aside in the project’s database and never fetched; the others are taken', async (t) => {
  const { take, kept, rowsOf } = await scene();
  await rowsOf(write(`'{"n":1}'`));
  await rowsOf(write(`'"' || repeat('x', 30000000) || '"'`));
  await rowsOf(write(`'{}'`, { op: `'UPDATE'`, old: `'"' || repeat('x', 30000000) || '"'` }));
  await rowsOf(write(`'{"n":2}'`));
  const { reported, bytes } = await take();
  t.deepEqual(await kept(), ['{"row":{"n":1}}', '{"row":{"n":2}}']);
  t.is(reported.length, 2);
  t.regex(reported[0]?.reason ?? '', /30000002 bytes/);
  t.true(bytes < 1_000_000, `${bytes} bytes were read`);
  t.deepEqual(await rowsOf('select from plinth.outbox'), []);
  const failed = await rowsOf<{ size: number }>(
    'select octet_length(row) as size from plinth.outbox_failed order by id',
  );
  t.deepEqual(failed, [{ size: 65_536 }, { size: 2 }], 'no more than the start is kept');
});

test('rows that no trigger writes are set aside, whichever part of them is odd', async (t) => {
  const { take, kept, rowsOf } = await scene();
  const odd = [
    { table_name: `repeat('t', 30000000)` },
    { op: `'DROP'` },
    { op: `repeat('x', 30000000)` },
    { ts: `'infinity'` },
    { ts: `'-infinity'` },
    { ts: `'20000-01-01'` },
  ];
  for (const more of odd) await rowsOf(write(`'{}'`, more));
  await rowsOf(write(`'{"n":1}'`));
  const { reported, bytes } = await take();
  t.is(reported.length, odd.length);
  t.true(bytes < 1_000_000, `${bytes} bytes were read`);
  t.deepEqual(await kept(), ['{"row":{"n":1}}']);
  t.deepEqual(await rowsOf('select from plinth.outbox'), []);
});

test('what lies set aside is bounded: the oldest go first', async (t) => {
  const { take, rowsOf } = await scene();
  await rowsOf(`insert into plinth.outbox_failed (id, ts, table_name, op, row, reason, failed_at)
    select n, now(), 't', 'INSERT', '{}', 'earlier', now() - interval '1 hour' + (n - 1000001) * interval '1 s'
    from generate_series(1000001, 1001200) n`);
  await rowsOf(write(`'{}'`, { op: `'DROP'` }));
  await take();
  const [bounds] = await rowsOf(
    `select count(*)::int as n, min(id)::int as first from plinth.outbox_failed where reason = 'earlier'`,
  );
  t.deepEqual(bounds, { n: 999, first: 1_000_202 });
  await rowsOf(`update plinth.outbox_failed set row = repeat('x', 7000000) where id > 1001180`);
  await rowsOf(write(`'{}'`, { op: `'DROP'` }));
  await take();
  const [size] = await rowsOf<{ mb: number }>(
    'select (sum(octet_length(row)::bigint) / 1000000)::int as mb from plinth.outbox_failed',
  );
  t.true((size?.mb ?? 999) <= 68);
});

test('ids of events are UUIDs of version 7: the same for the same event, in order of time', (t) => {
  const first = eventId('p', { id: '1', at: 1_700_000_000_000.5 });
  t.is(first, eventId('p', { id: '1', at: 1_700_000_000_000.5 }));
  t.regex(first, /^018bcfe5-6800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  t.not(first, eventId('q', { id: '1', at: 1_700_000_000_000.5 }));
  t.true(first < eventId('p', { id: '1', at: 1_700_000_000_002 }));
});
