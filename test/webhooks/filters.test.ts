import test from 'ava';
import { type FannedOut, fanOut } from '#domain/webhooks/fan-out.ts';
import { usePlatform } from '#test/support/platform.ts';
import { webhookScene } from './api-scene.ts';
import { deliveriesOf, emit } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

const pass = (after: string | null): Promise<FannedOut> => fanOut(platform().db, after);

/** Makes the deliveries of all events that wait. */
const fanOutAll = async (): Promise<void> => {
  for (let last = await pass(null); last.events > 0 || last.next !== null;) last = await pass(last.next);
};

/** How many of these events come to a webhook with that filter. */
const countOf = async (fields: Readonly<Record<string, unknown>>, event: string, data: readonly string[]) => {
  const scene = await webhookScene(platform());
  const id = await scene.made(fields);
  await emit(platform(), scene.project.id, event, data);
  await fanOutAll();
  return (await deliveriesOf(platform(), id)).length;
};

test.serial(
  'a webhook gets the events that its filter lets pass, and another one of the project gets all',
  async (t) => {
    const { made, project } = await webhookScene(platform());
    const filtered = await made({ events: ['db.update'], filter: "data.status = 'paid' and old.status <> 'paid'" });
    const all = await made({ events: ['table.orders.*'] });
    await emit(platform(), project.id, 'table.orders.UPDATE', [
      '{"row":{"id":1,"status":"paid"},"old":{"id":1,"status":"open"}}',
      '{"row":{"id":2,"status":"paid"},"old":{"id":2,"status":"paid"}}',
      '{"row":{"id":3,"status":"open"},"old":{"id":3,"status":"paid"}}',
    ]);
    await fanOutAll();
    t.deepEqual(
      (await deliveriesOf(platform(), filtered)).map(({ event }) => event),
      ['db.update'],
    );
    t.is((await deliveriesOf(platform(), all)).length, 3);
  },
);

test.serial('an event that no filter lets pass is kept nowhere', async (t) => {
  const { made, project } = await webhookScene(platform());
  await made({ filter: 'data.n > 5' });
  await emit(platform(), project.id, 'user.created', ['{"n":1}']);
  await fanOutAll();
  const rows = await platform().db.query('select from outbox_events where project_id = $1', [project.id]);
  t.is(rows.length, 0);
});

test.serial('events that cannot be parsed, or are larger than a delivery, pass every filter', async (t) => {
  const large = JSON.stringify({ n: 1, text: 'x'.repeat(300_000) });
  t.is(await countOf({ filter: 'data.n = 2' }, 'user.created', ['{"n":1,"s":"\\u0000"}', large, '{"n":1}']), 2);
});

test.serial('a filter is shown, changed and taken away', async (t) => {
  const { ask, made, project } = await webhookScene(platform());
  const id = await made({ filter: 'data.n = 1' });
  t.is((await ask('GET', `/webhooks/${id}`)).body.filter, 'data.n = 1');
  const change = async (fields: object) => (await ask('PUT', `/webhooks/${id}`, fields)).body.filter;
  t.is(await change({ name: 'other' }), 'data.n = 1');
  t.is(await change({ filter: 'data.n = 2' }), 'data.n = 2');
  await emit(platform(), project.id, 'user.created', ['{"n":1}', '{"n":2}']);
  await fanOutAll();
  t.is((await deliveriesOf(platform(), id)).length, 1);
  t.is(await change({ filter: null }), null);
  await emit(platform(), project.id, 'user.created', ['{"n":1}']);
  await fanOutAll();
  t.is((await deliveriesOf(platform(), id)).length, 2);
});

test.serial('a filter that is not valid is refused with the place of its fault, and nothing is changed', async (t) => {
  const { ask, made } = await webhookScene(platform());
  const answer = await ask('POST', '/webhooks', { url: 'http://127.0.0.1:9/', events: ['*'], filter: 'data.n = = 1' });
  t.is(answer.status, 400);
  t.like(answer.body, { code: 'invalid_filter', details: { path: 'filter', position: 10 } });
  const id = await made({ filter: 'data.n = 1' });
  t.is((await ask('PUT', `/webhooks/${id}`, { filter: 'data.n ~ 1' })).status, 400);
  t.is((await ask('GET', `/webhooks/${id}`)).body.filter, 'data.n = 1');
});
