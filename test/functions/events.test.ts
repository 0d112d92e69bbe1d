import test from 'ava';
import { deleteOldInvocations, deleteOrphanedInvocations } from '#domain/functions/invocations.ts';
import { type ProjectScene, endless, useJobsApi } from '#test/jobs/scene.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';

const { scene: openScene, platform } = useJobsApi(test);

const scene = async (code: string): Promise<ProjectScene> => {
  const opened = await openScene(code);
  await keepEventsOf(platform().db, opened.project.id);
  return opened;
};

interface Event {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

const eventsOf = ({ project }: ProjectScene, count: number): Promise<Event[]> =>
  until(async () => {
    const rows = await platform().db.query<Event>(
      'select event, data from outbox_events where project_id = $1 order by created_at, event desc',
      [project.id],
    );
    return rows.length >= count && rows;
  });

/** SQL for an id of so many days ago. */
const idOf = (days: number) => `overlay(uuid_v7()::text placing
  (select overlay(lpad(to_hex((extract(epoch from now() - interval '${days} days') * 1000)::bigint), 12, '0')
    placing '-' from 9 for 0)) from 1 for 13)::uuid`;

const countOf = async (table: string, column: string, id: string): Promise<number> => {
  const [row] = await platform().db.query<{ n: number }>(`select count(*) as n from ${table} where ${column} = $1`, [
    id,
  ]);
  return row?.n ?? 0;
};

test('every finished run is an event, one that did not succeed a second one', async (t) => {
  const one = await scene('exports.handler = (x) => { console.log("l"); if (x) throw new Error("a\\0b"); return 1 }');
  const good = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 0 } });
  await eventsOf(one, 1);
  const bad = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  const events = await eventsOf(one, 3);
  t.deepEqual(
    events.map(({ event, data }) => [event, data['id'], data['status']]),
    [
      ['functions.invoked', good.body.invocation_id, 'success'],
      ['functions.invoked', bad.body.invocation_id, 'error'],
      ['functions.error', bad.body.invocation_id, 'error'],
    ],
  );
  const { body } = await one.ask('GET', `/functions/${one.fn.id}/invocations/${bad.body.invocation_id}`);
  const { logs: _logs, logs_truncated: _truncated, timings: _timings, ...reported } = body;
  t.deepEqual(events[2]?.data, reported);
});

test('a webhook that is made while runs end misses none that is called after it was made', async (t) => {
  const one = await openScene('exports.handler = () => 1');
  const call = async (): Promise<string> =>
    String((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 0 } })).body.invocation_id);
  let isMade = false;
  const later: string[] = [];
  const caller = async (): Promise<void> => {
    while (later.length < 40) {
      const isAfter = isMade;
      const id = await call();
      if (isAfter) later.push(id);
    }
  };
  const callers = [caller(), caller(), caller(), caller()];
  await call();
  const hook = { url: 'http://127.0.0.1:9/', events: ['functions.*'], active: false };
  t.is((await one.ask('POST', '/integrations/webhooks', { body: hook })).status, 201);
  isMade = true;
  await Promise.all(callers);
  const kept = await until(async () => {
    const ids = new Set((await eventsOf(one, 1)).map(({ data }) => String(data['id'])));
    return later.every((id) => ids.has(id)) && ids;
  });
  t.true(later.length >= 40 && kept.size >= later.length);
});

test('a run that was cancelled before it began is told too', async (t) => {
  const one = await scene(endless);
  // One of the five places is kept for calls that somebody waits for.
  const running = await Promise.all(Array.from({ length: 4 }, () => one.begin()));
  await one.jobWhen(running[3] ?? '', 'running');
  const id = await one.begin();
  await one.ask('POST', `/jobs/${id}/cancel`);
  const events = await eventsOf(one, 2);
  t.deepEqual(
    events.map(({ event, data }) => [event, data['id'], data['status']]),
    [
      ['functions.invoked', id, 'cancelled'],
      ['functions.error', id, 'cancelled'],
    ],
  );
  await Promise.all(running.map((job) => one.ask('POST', `/jobs/${job}/cancel`)));
});

test('records are kept for their days; nothing younger goes', async (t) => {
  const one = await scene('exports.handler = () => 1');
  const { db } = platform();
  await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 0 } });
  await eventsOf(one, 1);
  await db.query(
    `insert into invocations (id, project_id, function_id, version, trigger, status, data, finished_at)
     select ${idOf(31)}, $1, $2, 1, 'api', 'success', 'x', now() - interval '31 days' from generate_series(1, 7)`,
    [one.project.id, one.fn.id],
  );
  t.is(await deleteOldInvocations(db, 30, 5), 5);
  t.is(await deleteOldInvocations(db, 30, 5), 2);
  t.is(await deleteOldInvocations(db, 30, 5), 0);
  t.is(await countOf('invocations', 'function_id', one.fn.id), 1);
});

test('the records of a deleted function go in steps', async (t) => {
  const one = await scene('exports.handler = () => 1');
  const other = await scene('exports.handler = () => 1');
  for (const { ask, fn } of [one, one, one, other])
    await ask('POST', `/functions/${fn.id}/invoke`, { body: { payload: 0 } });
  await Promise.all([eventsOf(one, 3), eventsOf(other, 1)]);
  t.is((await one.ask('DELETE', `/functions/${one.fn.id}`)).status, 204);
  const { db } = platform();
  t.is(await deleteOrphanedInvocations(db, 2), 2);
  t.is(await deleteOrphanedInvocations(db, 2), 1);
  t.is(await countOf('invocations', 'function_id', one.fn.id), 0);
  t.is(await countOf('invocations', 'function_id', other.fn.id), 1);
});

test('the patterns for which the end of a run makes an event are those that its events fit', async (t) => {
  const [row] = await platform().db.query<{ patterns: string[]; source: string }>(
    `select array(select distinct unnest(event_patterns('functions.invoked') || event_patterns('functions.error')) order by 1)
       as patterns, pg_get_functiondef('record_invocation'::regproc) as source`,
  );
  const named = /p\.pattern in \(([^)]*)\)/.exec(row?.source ?? '')?.[1]?.match(/[^', ]+/g) ?? [];
  t.deepEqual(named.toSorted(), row?.patterns.toSorted());
});
