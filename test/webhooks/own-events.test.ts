import test from 'ava';
import { faultOfPattern } from '#domain/events/events.ts';
import { emitCustomEvent } from '#domain/webhooks/custom-events.ts';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { ServiceError } from '#lib/errors.ts';
import { usePlatform } from '#test/support/platform.ts';
import { webhookScene } from './api-scene.ts';
import { deliveriesOf } from './pipeline-scene.ts';

// Without a worker nothing is passed on before a test says so.
const platform = usePlatform(test, { worker: false });

const fanOutAll = async (): Promise<void> => {
  for (let last = await fanOut(platform().db); last.events > 0; last = await fanOut(platform().db));
};

const namesOf = async (webhookId: string): Promise<string[]> =>
  (await deliveriesOf(platform(), webhookId)).map(({ event }) => event).toSorted();

const scene = async () => {
  const { db, client } = platform();
  const made = await webhookScene(platform());
  const { project, owner } = made;
  const { body } = await client.call('POST', `/projects/${project.id}/api-keys`, {
    token: owner.token,
    body: { name: 'emitting', kind: 'secret' },
  });
  const key = String(body.api_key);
  const emit = (name: string, data: unknown) => client.call('POST', '/api/events', { key, body: { name, data } });
  const waiting = async (): Promise<number> =>
    (await db.query('select from outbox_events where project_id = $1 and fanned_at is null', [project.id])).length;
  return { ...made, emit, waiting };
};

test.serial(
  'a webhook gets the events of its project’s own to which it subscribes, by name and by group',
  async (t) => {
    const { made, emit } = await scene();
    const byName = await made({ events: ['order.paid'], filter: 'data.amount > 100' });
    const byGroup = await made({ events: ['order.*'] });
    const other = await made({ events: ['orders.paid', 'user.*'] });
    t.is((await emit('order.paid', { amount: 99 })).status, 202);
    t.is((await emit('order.paid', { amount: 101 })).status, 202);
    t.is((await emit('order.item.sent', {})).status, 202);
    await fanOutAll();
    t.deepEqual(await namesOf(byName), ['order.paid']);
    t.deepEqual(await namesOf(byGroup), ['order.item.sent', 'order.paid', 'order.paid']);
    t.deepEqual(await namesOf(other), []);
  },
);

test.serial('a name that is nearly one of the platform is a mistake, and others are a project’s own', (t) => {
  for (const name of ['usr.created', 'auht.signup', 'storge.upload', 'user.creatd', 'Order.paid', 'order-paid']) {
    t.regex(faultOfPattern(name) ?? '', /is no event/, name);
  }
  t.regex(faultOfPattern('usr.created') ?? '', /did you mean user\.created\?/);
  for (const name of ['order.paid', 'orders.created', 'order.*', 'cart', 'a.b.c.*', 'x'.repeat(100)]) {
    t.is(faultOfPattern(name), null, name);
  }
});

test.serial('events of a project wait up to 64 MB, and are accepted again once some were passed on', async (t) => {
  const { made, emit, waiting, project } = await scene();
  await made({ events: ['order.*'] });
  const { db } = platform();
  // Sums that cannot be compressed away: what waits is counted as it is stored.
  await db.query(
    `with sums as materialized (select string_agg(md5(k::text), '') as text from generate_series(1, 7800) k)
     insert into outbox_events (project_id, event, data)
     select $1, 'order.imported', to_json(n || text) from sums, generate_series(1, 300) n`,
    [project.id],
  );
  t.is(await waiting(), 300);
  const refused = await emit('order.paid', 1);
  t.deepEqual([refused.status, refused.body.code], [429, 'queue_full'], refused.text);
  t.regex(String(refused.body.message), /64 MB/);
  t.is(refused.headers.get('retry-after'), '5');
  t.is(await waiting(), 300);
  await fanOutAll();
  t.is((await emit('order.paid', 1)).status, 202);
});

test.serial('small events count by their number, and each project has its own room', async (t) => {
  const [one, other] = [await scene(), await scene()];
  for (const { made } of [one, other]) await made({ events: ['order.*'] });
  const room = { events: 3, bytes: 1024 * 1024 };
  const emitTo = (projectId: string) =>
    emitCustomEvent(platform().db, projectId, { name: 'order.paid', data: '{}', depth: 0 }, room);
  for (let n = 0; n < 3; n += 1) await emitTo(one.project.id);
  t.is((await t.throwsAsync(emitTo(one.project.id), { instanceOf: ServiceError }))?.code, 'queue_full');
  await emitTo(other.project.id);
  t.deepEqual([await one.waiting(), await other.waiting()], [3, 1]);
});
