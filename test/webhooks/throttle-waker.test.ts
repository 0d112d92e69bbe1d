import test from 'ava';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { wakeUnlockedThrottles } from '#domain/webhooks/scheduler.ts';
import { latelyMs, wakeLatelyForgotten } from '#domain/webhooks/sweep.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';
import { addProject, addWebhook, deliveriesOf, deliveriesWhen, emit, hasStatus, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

const url = 'http://127.0.0.1:1/';

const twoProjects = async () => {
  const [first, second] = [await addProject(platform()), await addProject(platform())];
  return {
    projects: [first, second],
    lockedElsewhere: await addWebhook(platform(), first, { url }),
    free: await addWebhook(platform(), second, { url }),
  } as const;
};

const hold = 'select from webhook_throttles where webhook_id = $1 for no key update';

test.serial('a fan-out batch waits for no locked throttle, and reports which are yet to be woken', async (t) => {
  const { db } = platform();
  const { projects, lockedElsewhere, free } = await twoProjects();
  await db.transaction(async (tx) => {
    await tx.query(hold, [lockedElsewhere.id]);
    for (const project of projects) await emit(platform(), project.id, 'auth.login', ['{}', '{}']);
    const out = await fanOut(db);
    t.deepEqual(
      [out.events, out.deliveries, out.webhookIds, out.lockedElsewhereIds],
      [4, 4, [free.id], [lockedElsewhere.id]],
    );
    t.is((await throttleOf(platform(), lockedElsewhere.id)).next_at, null);
    t.truthy((await throttleOf(platform(), free.id)).next_at);
    t.deepEqual(await wakeUnlockedThrottles(db, [free.id, lockedElsewhere.id, crypto.randomUUID()]), [
      lockedElsewhere.id,
    ]);
  });
  t.deepEqual(await wakeUnlockedThrottles(db, [lockedElsewhere.id]), []);
  t.truthy((await throttleOf(platform(), lockedElsewhere.id)).next_at);
});

test.serial('throttles whose deliveries were created lately and that nobody woke are found', async (t) => {
  const { db } = platform();
  const { projects, lockedElsewhere, free } = await twoProjects();
  await emit(platform(), projects[0].id, 'auth.login');
  await fanOut(db);
  await db.query('update webhook_throttles set next_at = null where webhook_id = $1', [lockedElsewhere.id]);
  t.is(await wakeLatelyForgotten(db, Date.now() + latelyMs + 60_000), 0);
  t.true((await wakeLatelyForgotten(db)) >= 1);
  t.truthy((await throttleOf(platform(), lockedElsewhere.id)).next_at);
  t.is((await throttleOf(platform(), free.id)).next_at, null);
});

test.serial(
  'while one throttle is locked, other webhooks are delivered to; its own follow when it is unlocked',
  async (t) => {
    const receiver = await receiverFor(t);
    const [first, second] = [await addProject(platform()), await addProject(platform())];
    const lockedElsewhere = await addWebhook(platform(), first, { url: receiver.url });
    const free = await addWebhook(platform(), second, { url: receiver.url });
    const stop = await platform().startWorker();
    await platform().db.transaction(async (tx) => {
      await tx.query(hold, [lockedElsewhere.id]);
      await emit(platform(), first.id, 'auth.login');
      await until(async () => (await deliveriesOf(platform(), lockedElsewhere.id)).length === 1);
      await emit(platform(), second.id, 'auth.login');
      await deliveriesWhen(platform(), free.id, { fits: hasStatus('success') });
    });
    await deliveriesWhen(platform(), lockedElsewhere.id, { fits: hasStatus('success') });
    await stop();
    t.is(receiver.received.length, 2);
  },
);
