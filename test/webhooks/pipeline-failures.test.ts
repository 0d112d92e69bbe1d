import test from 'ava';
import type { DeliveryRow } from '#domain/webhooks/store.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import { receiverFor, withStatus } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';
import {
  type TestWebhook,
  addProject,
  addWebhook,
  deliveriesOf,
  deliveriesWhen,
  emit,
  hasStatus,
  hurry,
  throttleOf,
} from './pipeline-scene.ts';

const platform = usePlatform(test);

const afterTries =
  (tries: number) =>
  (row: DeliveryRow): boolean =>
    row.attempt === tries && row.job_id === null;

const secondsUntil = (at: Date | null | undefined, since: Date): number =>
  ((at?.getTime() ?? Number.NaN) - since.getTime()) / 1000;

/** The database's clock, which the plan is made by. */
const nowOf = async ({ db }: TestPlatform): Promise<Date> => {
  const [row] = await db.query<{ now: Date }>('select clock_timestamp() as now');
  return row?.now ?? new Date(Number.NaN);
};

const isActive = async ({ id }: TestWebhook): Promise<Record<string, unknown>> => {
  const [row] = await platform().db.query('select is_active, disabled_reason from webhooks where id = $1', [id]);
  return row ?? {};
};

test('a delivery that fails is tried ten times, with the pauses of the plan, and is then exhausted', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(500, {}, 'no'));
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  const [eventId] = await emit(platform(), project.id, 'auth.login');
  const plan = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
  for (const [n, pause] of plan.entries()) {
    const [row] = await deliveriesWhen(platform(), webhook.id, { fits: afterTries(n + 1) });
    t.like(row, { status: 'failed', status_code: 500, response_body: 'no', error: 'The receiver answered 500.' });
    const left = secondsUntil(row?.next_attempt_at, await nowOf(platform()));
    // Only the time since it was planned may be missing.
    t.true(left <= pause * 1.1 && left > pause * 0.9 - 4, `${left} s after try ${n + 1}`);
    await hurry(platform(), webhook.id);
  }
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('exhausted') });
  t.like(row, { attempt: 10, next_attempt_at: null });
  t.is(receiver.received.length, 10);
  t.deepEqual([...new Set(receiver.received.map(({ headers }) => headers['webhook-id']))], [eventId]);
});

test('Retry-After of a 429 holds back all deliveries of the webhook', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(429, { 'Retry-After': '3600' }));
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(platform(), project.id, 'auth.login');
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: afterTries(1) });
  const now = await nowOf(platform());
  // The throttle is looked at once more after the record.
  const throttle = await until(async () => {
    const found = await throttleOf(platform(), webhook.id);
    return found.next_at !== null && found.next_at > now && found;
  });
  for (const at of [row?.next_attempt_at, throttle.retry_after, throttle.next_at]) {
    t.true(Math.abs(secondsUntil(at, now) - 3600) < 60);
  }
  await emit(platform(), project.id, 'auth.login');
  await deliveriesWhen(platform(), webhook.id, { count: 2, fits: ({ job_id: job }) => job === null });
  await until(async () => secondsUntil((await throttleOf(platform(), webhook.id)).next_at, now) > 3500);
  t.is(receiver.received.length, 1);
});

test('a Retry-After of days is a day; one of a 500 says nothing', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const far = await addWebhook(platform(), project, { url: `${receiver.url}/far` });
  const other = await addWebhook(platform(), project, { url: `${receiver.url}/other` });
  const date = new Date(Date.now() + 30 * 24 * 3600 * 1000).toUTCString();
  receiver.answer((response, { path }) =>
    withStatus(path === '/far' ? 503 : 500, { 'Retry-After': date })(response, receiver.received[0] as never),
  );
  await emit(platform(), project.id, 'auth.login');
  await deliveriesWhen(platform(), far.id, { fits: afterTries(1) });
  await deliveriesWhen(platform(), other.id, { fits: afterTries(1) });
  const left = secondsUntil((await throttleOf(platform(), far.id)).retry_after, await nowOf(platform()));
  t.true(Math.abs(left - 24 * 3600) < 60);
  t.is((await throttleOf(platform(), other.id)).retry_after, null);
});

test('410 makes the webhook inactive at once: the rest is skipped, the log and the admins say so', async (t) => {
  const { db, client } = platform();
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(410));
  const user = await client.signUp();
  const project = await addProject(platform());
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into members (id, org_id, user_id, email, role, status) values (uuid_v7(), $1, $2, $3, 'owner', 'active')`,
        [project.orgId, user.id, user.email],
      ),
    { 'plinth.actor': '{"type":"system"}' },
  );
  const webhook = await addWebhook(platform(), project, { url: receiver.url, rate: 1 });
  await emit(
    platform(),
    project.id,
    'auth.login',
    Array.from({ length: 30 }, () => '{}'),
  );
  const rows = await deliveriesWhen(platform(), webhook.id, {
    count: 30,
    fits: ({ job_id: job, next_attempt_at: next, status }) => job === null && next === null && status !== 'pending',
  });
  t.deepEqual(await isActive(webhook), { is_active: false, disabled_reason: 'The receiver answered 410 (Gone).' });
  t.is(rows.filter(({ status }) => status === 'failed').length, receiver.received.length);
  t.is(rows.filter(({ status }) => status === 'skipped').length, 30 - receiver.received.length);
  const entries = await db.query('select action, actor from audit_entries where target_id = $1 and action <> $2', [
    webhook.id,
    'webhook.create',
  ]);
  t.deepEqual(entries, [{ action: 'webhook.disable', actor: { type: 'system' } }]);
  const mails = await db.query<{ subject: string }>('select subject from platform_mail where recipient = $1', [
    user.email,
  ]);
  t.true(mails.some(({ subject }) => subject === 'Webhooks were turned off'));
});

test('five days of nothing but failures make a webhook inactive; a success in between does not', async (t) => {
  const { db } = platform();
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const [bad, good] = [
    await addWebhook(platform(), project, { url: `${receiver.url}/bad` }),
    await addWebhook(platform(), project, { url: `${receiver.url}/good` }),
  ];
  receiver.answer((response, received) => withStatus(received.path === '/bad' ? 500 : 200)(response, received));
  const long = `update webhook_throttles set failures = 3, failing_since = now() - interval '121 hours', failed_tries = 9,
    failed_at = now() - interval '47 hours' where webhook_id = any ($1)`;
  await db.query(long, [[bad.id, good.id]]);
  await emit(platform(), project.id, 'auth.login');
  await deliveriesWhen(platform(), good.id, { fits: hasStatus('success') });
  await until(async () => (await isActive(bad))['is_active'] === false);
  t.is((await isActive(bad))['disabled_reason'], 'Nothing but failures for 5 days.');
  t.is((await isActive(good))['is_active'], true);
  t.like(await throttleOf(platform(), good.id), { failures: 0, failing_since: null, closed_until: null });
  await deliveriesWhen(platform(), bad.id, { fits: hasStatus('skipped') });
});

test('from five failures in a row on there is one try at a time, with longer and longer pauses; a success ends that', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(500));
  const project = await addProject(platform(), 'pro');
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(
    platform(),
    project.id,
    'auth.login',
    Array.from({ length: 5 }, () => '{}'),
  );
  await deliveriesWhen(platform(), webhook.id, { count: 5, fits: afterTries(1) });
  for (const [failures, pause] of [
    [5, 5],
    [6, 10],
    [7, 20],
  ] as const) {
    const throttle = await until(async () => {
      const now = await throttleOf(platform(), webhook.id);
      return now.failures === failures && now.closed_until !== null && now;
    });
    const left = secondsUntil(throttle.closed_until, await nowOf(platform()));
    t.true(left <= pause && left > pause - 4, `${left} s after ${failures} failures`);
    const before = receiver.received.length;
    await hurry(platform(), webhook.id);
    await receiver.when(before + 1);
  }
  await until(async () => (await throttleOf(platform(), webhook.id)).failures === 8);
  t.is(receiver.received.length, 8);
  receiver.answer(withStatus(200));
  await hurry(platform(), webhook.id);
  await until(async () => (await throttleOf(platform(), webhook.id)).failures === 0);
  await until(async () => {
    const rows = await deliveriesOf(platform(), webhook.id);
    if (rows.every(hasStatus('success'))) return true;
    await hurry(platform(), webhook.id);
    return false;
  });
  await until(async () => (await throttleOf(platform(), webhook.id)).next_at === null);
  t.is((await throttleOf(platform(), webhook.id)).closed_until, null);
});

test('deliveries of a webhook that became inactive are skipped, those that wait for another try, too', async (t) => {
  const { db } = platform();
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(500));
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(platform(), project.id, 'auth.login');
  await deliveriesWhen(platform(), webhook.id, { fits: afterTries(1) });
  await db.transaction((tx) => tx.query('update webhooks set is_active = false where id = $1', [webhook.id]), {
    'plinth.actor': '{"type":"system"}',
  });
  await hurry(platform(), webhook.id);
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('skipped') });
  t.like(row, { attempt: 1, next_attempt_at: null });
  t.is(receiver.received.length, 1);
});
