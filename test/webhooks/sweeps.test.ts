import test from 'ava';
import { stuckTries } from '#domain/webhooks/attempts.ts';
import {
  deleteEmptyEvents,
  deleteEmptyWebhooks,
  deleteOldDeliveries,
  deleteOrphanedDeliveries,
  wakeForgottenThrottles,
} from '#domain/webhooks/sweep.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type BareProject, addProject, addWebhook, deliveriesOf, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });
const days = { delivered: 7, undelivered: 30 };

const asSystem = { 'plinth.actor': '{"type":"system"}' };

interface Past {
  readonly status: string;
  /** When it ended; null: it is still to be tried. */
  readonly daysAgo: number | null;
}

/** A delivery with its event, as the past left it. */
const addDelivery = async ({ id: projectId }: BareProject, webhookId: string, { status, daysAgo }: Past) => {
  const eventId = newId();
  await platform().db.query(
    `insert into outbox_events (id, project_id, event, data, fanned_at)
     values ($1, $2, 'auth.login', '{}', now() - make_interval(days => coalesce($3, 90)))`,
    [eventId, projectId, daysAgo],
  );
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at, next_attempt_at)
     values ($1, $2, $3, 'auth.login', $4, now() - make_interval(days => $5), case when $5::int is null then now() end)`,
    [webhookId, projectId, eventId, status, daysAgo],
  );
  return eventId;
};

const eventsOf = async ({ id }: BareProject): Promise<string[]> => {
  const rows = await platform().db.query<{ id: string }>('select id from outbox_events where project_id = $1', [id]);
  return rows.map((row) => row.id);
};

test.serial('deliveries are kept for their days, and their events with them; what is to be tried stays', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const { id } = await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' });
  const gone = new Set([
    await addDelivery(project, id, { status: 'success', daysAgo: 8 }),
    await addDelivery(project, id, { status: 'exhausted', daysAgo: 31 }),
    await addDelivery(project, id, { status: 'skipped', daysAgo: 31 }),
  ]);
  const kept = [
    await addDelivery(project, id, { status: 'success', daysAgo: 6 }),
    await addDelivery(project, id, { status: 'exhausted', daysAgo: 29 }),
    await addDelivery(project, id, { status: 'failed', daysAgo: null }),
  ];
  t.is(await deleteOldDeliveries(db, days, 2), 2);
  t.is(await deleteOldDeliveries(db, days, 2), 1);
  t.is(await deleteOldDeliveries(db, days, 2), 0);
  t.is(await deleteEmptyEvents(db, days, 10), 0);
  t.deepEqual((await eventsOf(project)).toSorted(), kept.toSorted());
  t.is((await deliveriesOf(platform(), id)).filter(({ event_id: event }) => gone.has(event)).length, 0);
});

test.serial('an event stays while one of its deliveries does', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const [one, other] = [
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
  ];
  const event = await addDelivery(project, one.id, { status: 'success', daysAgo: 8 });
  await db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     values ($1, $2, $3, 'auth.login', 'exhausted', now() - interval '8 days')`,
    [other.id, project.id, event],
  );
  t.is(await deleteOldDeliveries(db, days, 10), 1);
  t.deepEqual(await eventsOf(project), [event]);
});

test.serial('of a deleted webhook, and of a deleted project, the deliveries go first, in steps', async (t) => {
  const { db } = platform();
  const [project, deleted] = [await addProject(platform()), await addProject(platform())];
  const webhooks = [
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
    await addWebhook(platform(), deleted, { url: 'http://127.0.0.1:1/' }),
  ];
  const [first, second] = webhooks.map(({ id }) => id);
  for (const status of ['pending', 'failed', 'success']) {
    await addDelivery(project, first ?? '', { status, daysAgo: status === 'success' ? 0 : null });
    await addDelivery(deleted, second ?? '', { status, daysAgo: status === 'success' ? 0 : null });
  }
  t.is(await deleteOrphanedDeliveries(db, 10), 0);
  await db.transaction(async (tx) => {
    await tx.query('update webhooks set deleted_at = now() where id = $1', [first]);
    await tx.query(`update projects set deleted_at = now(), status = 'deleting' where id = $1`, [deleted.id]);
  }, asSystem);
  t.is(await deleteEmptyWebhooks(db, 10), 0);
  t.is(await deleteOrphanedDeliveries(db, 4), 4);
  t.is(await deleteOrphanedDeliveries(db, 4), 2);
  t.is(await deleteEmptyWebhooks(db, 10), 2);
  t.deepEqual([await eventsOf(project), await eventsOf(deleted)], [[], []]);
});

test.serial('a try whose job is gone or was cancelled is found, one that waits is not', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const { id } = await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' });
  const jobs = { missing: newId(), cancelled: newId(), queued: newId() };
  for (const jobId of Object.values(jobs)) {
    const event = await addDelivery(project, id, { status: 'pending', daysAgo: null });
    await db.query('update webhook_deliveries set job_id = $2 where event_id = $1', [event, jobId]);
  }
  await db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id, finished_at)
     values ($1, $3, 'webhook.deliver', 'cancelled', '{}', 5, 'r', now() - interval '1 minute'),
       ($2, $3, 'webhook.deliver', 'queued', '{}', 5, 'r', null)`,
    [jobs.cancelled, jobs.queued, project.id],
  );
  const stuck = await stuckTries(db, 10);
  t.deepEqual(stuck.map(({ jobId }) => jobId).toSorted(), [jobs.missing, jobs.cancelled].toSorted());
});

test.serial('a throttle that is due and was forgotten is polled', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const [forgotten, idle] = [
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
  ];
  await addDelivery(project, forgotten.id, { status: 'pending', daysAgo: null });
  t.true((await wakeForgottenThrottles(db)) >= 1);
  t.truthy((await throttleOf(platform(), forgotten.id)).next_at);
  t.is((await throttleOf(platform(), idle.id)).next_at, null);
});
