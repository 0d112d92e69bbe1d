import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { until } from '#test/support/until.ts';
import { type ProjectScene, useJobsApi } from '../jobs/scene.ts';

const { platform, scene } = useJobsApi(test);

const echo = 'export const handler = (payload, sdk) => ({ payload, caller: sdk.caller, request: sdk.request });';

interface Run {
  readonly id: string;
  readonly status: string;
  readonly started_by: unknown;
  readonly result: { readonly result: { readonly payload: Record<string, unknown>; readonly caller: unknown } };
}

/** The jobs of the function, the oldest first, once so many have ended. */
const runsOf = (s: ProjectScene, fnId: string, count: number): Promise<Run[]> =>
  until(async () => {
    const { body } = await s.ask('GET', `/jobs?function_id=${fnId}&limit=200`);
    const ids = (body.jobs as { id: string; status: string }[]).filter(({ status }) => status === 'succeeded');
    if (ids.length < count) return false;
    const jobs = await Promise.all(ids.map(({ id }) => s.ask('GET', `/jobs/${id}`)));
    return jobs.map((job) => job.body as unknown as Run).toSorted((a, b) => a.id.localeCompare(b.id));
  });

const addTrigger = (s: ProjectScene, body: unknown, fnId = s.fn.id): Promise<Answer> =>
  s.ask('POST', `/functions/${fnId}/triggers`, { body });

const sql = async (s: ProjectScene, text: string): Promise<void> => {
  const { status, body } = await s.ask('POST', '/db/query', { body: { sql: text } });
  if (status !== 200) throw new Error(JSON.stringify(body));
};

const emit = (s: ProjectScene, body: unknown, key = s.project.key): Promise<Answer> =>
  platform().client.call('POST', '/api/events', { key, body });

test('a write to a table runs the functions whose triggers let it pass, each once', async (t) => {
  const s = await scene(echo);
  await sql(s, 'create table orders (id bigint primary key, status text)');
  const made = await addTrigger(s, {
    event: 'table.orders.UPDATE',
    filter: "data.status = 'paid' and old.status <> 'paid'",
  });
  t.is(made.status, 201, made.text);
  t.like(made.body, {
    function_id: s.fn.id,
    event: 'table.orders.UPDATE',
    retry: null,
    is_active: true,
    last_error: null,
  });
  await sql(s, `insert into orders values (9007199254740993, 'open'), (2, 'open')`);
  await sql(s, `update orders set status = 'paid' where id > 2`);
  await sql(s, `update orders set status = 'lost' where id = 2`);
  await sql(s, `update orders set status = 'paid' where id > 2`);
  await sql(s, `update orders set status = 'paid' where id = 2`);
  const runs = await runsOf(s, s.fn.id, 2);
  t.is(runs.length, 2);
  const [{ result }] = runs as [Run];
  t.like(result.result.payload, { event: 'table.orders.UPDATE', project_id: s.project.id });
  t.like(result.result.payload, { old: { status: 'open' } });
  t.deepEqual(result.result.caller, { kind: 'event', key_id: null, user: null });
  const { body } = await s.ask('GET', `/functions/${s.fn.id}/invocations`);
  t.is(body.invocations[0].trigger, 'event');
});

test('events of the project’s own run functions, with exact numbers, from HTTP and from both languages', async (t) => {
  const s = await scene(echo);
  t.is((await addTrigger(s, { event: 'order.paid', filter: 'data.amount = 12345678901234567890' })).status, 201);
  t.is((await addTrigger(s, { event: 'order.*' })).status, 201);
  const answer = await platform().client.call('POST', '/api/events', {
    key: s.project.key,
    headers: { 'content-type': 'application/json' },
    raw: '{"name": "order.paid", "data": {"amount": 12345678901234567890}}',
  });
  t.is(answer.status, 202, answer.text);
  t.deepEqual(answer.body, { name: 'order.paid' });
  t.is((await runsOf(s, s.fn.id, 2)).length, 2);

  const { client } = platform();
  const emitting = await client.deploy(
    s.user,
    s.project,
    `export const handler = async (data, sdk) => sdk.events.emit('order.made', data);`,
  );
  await client.invoke(s.user, s.project, emitting, { by: 'javascript' });
  const python = await client.deploy(
    s.user,
    s.project,
    `def handler(data, sdk):\n    sdk.events.emit('order.made', data)\n`,
    { language: 'python' },
  );
  await client.invoke(s.user, s.project, python, { by: 'python' });
  const runs = await runsOf(s, s.fn.id, 4);
  t.deepEqual(
    new Set(runs.map(({ result }) => (result.result.payload['data'] as { by?: string }).by)),
    new Set([undefined, 'javascript', 'python']),
  );
});

test('names and filters that cannot be are refused, and another project’s function is not found', async (t) => {
  const s = await scene(echo);
  for (const name of ['user.created', 'table.x.INSERT', 'test.ping', 'Order', '', 'a-b', '_x', 'x'.repeat(101)]) {
    t.is((await emit(s, { name, data: 1 })).status, 400, name);
  }
  t.is((await emit(s, { name: 'x', data: 'y'.repeat(262_145) })).status, 413);
  t.is((await emit(s, { name: 'x' }, s.project.publishableKey)).status, 403);
  t.is((await emit(s, { name: 'x', more: 1 })).status, 400);
  t.is((await addTrigger(s, { event: 'user.creatd' })).body.code, 'validation_failed');
  t.is((await addTrigger(s, { event: 'Order.Paid' })).body.code, 'validation_failed');
  const refused = await addTrigger(s, { event: 'order.paid', filter: 'data.a >' });
  t.is(refused.status, 400);
  t.is(refused.body.code, 'invalid_filter');
  t.is(typeof refused.body.details.position, 'number');
  const other = await scene(echo);
  t.is((await addTrigger(s, { event: 'order.paid' }, other.fn.id)).status, 404);
  t.is((await s.ask('GET', `/functions/${other.fn.id}/triggers`)).status, 404);
});

test('a trigger that was deleted, alone or with its function, runs nothing any more', async (t) => {
  const s = await scene(echo);
  const other = await platform().client.deploy(s.user, s.project, echo);
  const made = await addTrigger(s, { event: 'a.b' });
  await addTrigger(s, { event: 'a.b' }, other.id);
  const kept = await platform().client.deploy(s.user, s.project, echo);
  await addTrigger(s, { event: 'a.b' }, kept.id);
  t.is((await s.ask('GET', `/functions/${s.fn.id}/triggers`)).body.total, 1);
  t.is((await s.ask('DELETE', `/functions/${s.fn.id}/triggers/${made.body.id}`)).status, 204);
  t.is((await s.ask('DELETE', `/functions/${s.fn.id}/triggers/${made.body.id}`)).status, 404);
  t.is((await s.ask('DELETE', `/functions/${other.id}`)).status, 204);
  await emit(s, { name: 'a.b', data: 1 });
  t.is((await runsOf(s, kept.id, 1)).length, 1);
  t.is((await s.ask('GET', `/jobs?function_id=${s.fn.id}`)).body.total, 0);
  const audit = await platform().client.call('GET', '/team/audit-log', {
    token: s.user.token,
    headers: { 'x-org-id': s.project.orgId },
  });
  const actions = new Set((audit.body.entries as { action: string }[]).map(({ action }) => action));
  t.true(actions.isSupersetOf(new Set(['function_trigger.create', 'function_trigger.delete'])));
});

test('a function whose trigger answers to its own writes ends after 100 jobs, and the trigger says so', async (t) => {
  const s = await scene(`export const handler = (payload, sdk) => sdk.db.insert('steps', { n: 1 });`);
  await sql(s, 'create table steps (n int)');
  await addTrigger(s, { event: 'table.steps.INSERT' });
  const other = await platform().client.deploy(s.user, s.project, echo);
  await addTrigger(s, { event: 'functions.invoked', filter: `data.function_id = '${other.id}'` }, other.id);
  await sql(s, 'insert into steps values (0)');
  await platform().client.invoke(s.user, s.project, other, null);
  const errorOf = async (fnId: string): Promise<string> =>
    until(async () => (await s.ask('GET', `/functions/${fnId}/triggers`)).body.triggers[0].last_error as string);
  t.regex(await errorOf(s.fn.id), /100 jobs have each enqueued the next/);
  t.regex(await errorOf(other.id), /100 jobs have each enqueued the next/);
  t.is((await s.ask('GET', `/jobs?function_id=${s.fn.id}`)).body.total, 100);
});
