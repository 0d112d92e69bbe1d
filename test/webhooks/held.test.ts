import test from 'ava';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { wakeFreeLanes } from '#domain/webhooks/lanes.ts';
import { latelyMs, wakeLatelyForgotten } from '#domain/webhooks/stuck.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';
import { addProject, addWebhook, deliveriesOf, deliveriesWhen, emit, hasStatus, laneOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

const url = 'http://127.0.0.1:1/';

const twoProjects = async () => {
  const [first, second] = [await addProject(platform()), await addProject(platform())];
  return {
    projects: [first, second],
    held: await addWebhook(platform(), first, { url }),
    free: await addWebhook(platform(), second, { url }),
  } as const;
};

const hold = 'select from webhook_lanes where webhook_id = $1 for no key update';

test.serial('a pass over events waits for no lane, and says which are yet to be woken', async (t) => {
  const { db } = platform();
  const { projects, held, free } = await twoProjects();
  await db.transaction(async (tx) => {
    await tx.query(hold, [held.id]);
    for (const project of projects) await emit(platform(), project.id, 'auth.login', ['{}', '{}']);
    const out = await fanOut(db);
    t.deepEqual([out.events, out.deliveries, out.webhookIds, out.heldIds], [4, 4, [free.id], [held.id]]);
    t.is((await laneOf(platform(), held.id)).next_at, null);
    t.truthy((await laneOf(platform(), free.id)).next_at);
    t.deepEqual(await wakeFreeLanes(db, [free.id, held.id, crypto.randomUUID()]), [held.id]);
  });
  t.deepEqual(await wakeFreeLanes(db, [held.id]), []);
  t.truthy((await laneOf(platform(), held.id)).next_at);
});

test.serial('lanes whose deliveries were made lately and that nobody woke are found', async (t) => {
  const { db } = platform();
  const { projects, held, free } = await twoProjects();
  await emit(platform(), projects[0].id, 'auth.login');
  await fanOut(db);
  await db.query('update webhook_lanes set next_at = null where webhook_id = $1', [held.id]);
  t.is(await wakeLatelyForgotten(db, Date.now() + latelyMs + 60_000), 0);
  t.true((await wakeLatelyForgotten(db)) >= 1);
  t.truthy((await laneOf(platform(), held.id)).next_at);
  t.is((await laneOf(platform(), free.id)).next_at, null);
});

test.serial('while one lane is held others are delivered to; it follows when it is let go', async (t) => {
  const receiver = await receiverFor(t);
  const [first, second] = [await addProject(platform()), await addProject(platform())];
  const held = await addWebhook(platform(), first, { url: receiver.url });
  const free = await addWebhook(platform(), second, { url: receiver.url });
  const stop = await platform().startWorker();
  await platform().db.transaction(async (tx) => {
    await tx.query(hold, [held.id]);
    await emit(platform(), first.id, 'auth.login');
    await until(async () => (await deliveriesOf(platform(), held.id)).length === 1);
    await emit(platform(), second.id, 'auth.login');
    await deliveriesWhen(platform(), free.id, { fits: hasStatus('success') });
  });
  await deliveriesWhen(platform(), held.id, { fits: hasStatus('success') });
  await stop();
  t.is(receiver.received.length, 2);
});
