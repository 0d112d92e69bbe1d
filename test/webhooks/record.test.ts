import test from 'ava';
import { actingAs } from '#domain/audit/actor.ts';
import { insertPing, newPing, requireRoomForPing } from '#domain/webhooks/deliveries.ts';
import { type WebhookAttempt, disableWebhooks, nothingSent, recordTries } from '#domain/webhooks/attempts.ts';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { type DeliveryRow, reopenBreaker, reopenThrottle } from '#domain/webhooks/store.ts';
import type { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type TestWebhook, addProject, addWebhook, deliveriesOf, emit, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });

const asSystem = actingAs({ type: 'system' }, 'test');

/** A webhook with so many deliveries. */
const scene = async (count = 1): Promise<TestWebhook> => {
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' });
  await emit(
    platform(),
    project.id,
    'auth.login',
    Array.from({ length: count }, () => '{}'),
  );
  const { db } = platform();
  let made = 0;
  while (made < count) {
    await fanOut(db);
    made = (await deliveriesOf(platform(), webhook.id)).length;
  }
  return webhook;
};

/** Gives each delivery of the webhook a try, and answers how such a try went: well, unless said. */
const begin = async (
  { id: webhookId }: TestWebhook,
  how: Partial<WebhookAttempt> = {},
): Promise<(WebhookAttempt & { version: number })[]> => {
  const rows = await platform().db.query<{ id: string; job_id: string; version: number }>(
    `update webhook_deliveries d set job_id = gen_random_uuid() from webhooks w
     where d.webhook_id = $1 and w.id = d.webhook_id returning d.id, d.job_id, w.version`,
    [webhookId],
  );
  return rows.map(({ id, job_id: jobId, version }) => ({
    webhookId,
    deliveryId: id,
    jobId,
    statusCode: 200,
    responseTimeMs: 1,
    requestHeaders: '{}',
    responseBody: null,
    error: null,
    notBefore: null,
    isGone: false,
    ...how,
    version,
  }));
};

/** Records them as workers do, with all that follows. */
const record = async (tries: readonly WebhookAttempt[]): Promise<void> => {
  await platform().db.transaction(async (tx) => {
    const { toDisable } = await recordTries(tx, tries);
    await disableWebhooks(tx, toDisable, () => Promise.resolve());
  }, asSystem);
};

const failed = { statusCode: 500, error: 'no' } as const;
const gone = { statusCode: 410, error: 'no', isGone: true } as const;

const isActive = async ({ id }: TestWebhook): Promise<boolean> => {
  const [row] = await platform().db.query<{ is_active: boolean }>('select is_active from webhooks where id = $1', [id]);
  return row?.is_active === true;
};

const change = ({ id }: TestWebhook, set: string): Promise<unknown> =>
  platform().db.transaction((tx) => tx.query(`update webhooks set ${set} where id = $1`, [id]), asSystem);

const setThrottle = ({ id }: TestWebhook, set: string): Promise<unknown> =>
  platform().db.query(`update webhook_throttles set ${set} where webhook_id = $1`, [id]);

test('what a receiver asked for holds, whatever it answers to what was under way', async (t) => {
  const webhook = await scene(2);
  const [first, second] = await begin(webhook);
  const notBefore = new Date(Date.now() + 3_600_000);
  await record([{ ...first, ...failed, statusCode: 429, notBefore } as WebhookAttempt]);
  await record([second as WebhookAttempt]);
  t.like(await throttleOf(platform(), webhook.id), { failures: 0, closed_until: null, retry_after: notBefore });
  // A replay by somebody does not end it either; a fresh start ends it.
  await reopenBreaker(platform().db, webhook.id);
  t.deepEqual((await throttleOf(platform(), webhook.id)).retry_after, notBefore);
  await reopenThrottle(platform().db, webhook.id);
  t.is((await throttleOf(platform(), webhook.id)).retry_after, null);
});

test('failures with weeks of nothing between them are not five days of failures', async (t) => {
  const webhook = await scene();
  await setThrottle(
    webhook,
    `failures = 1, failed_tries = 50, failing_since = now() - interval '30 days',
    failed_at = now() - interval '29 days'`,
  );
  await record(await begin(webhook, failed));
  t.true(await isActive(webhook));
  const throttle = await throttleOf(platform(), webhook.id);
  t.is(throttle.failed_tries, 1);
  t.true((throttle.failing_since?.getTime() ?? 0) > Date.now() - 60_000);
});

test('five days of failures are enough only when they were ten', async (t) => {
  const webhook = await scene(2);
  await setThrottle(
    webhook,
    `failures = 3, failed_tries = 8, failing_since = now() - interval '6 days', failed_at = now()`,
  );
  const [ninth, tenth] = await begin(webhook, failed);
  await record([ninth as WebhookAttempt]);
  t.true(await isActive(webhook));
  await record([tenth as WebhookAttempt]);
  t.false(await isActive(webhook));
});

test('a try that failed on our side says nothing of its receiver; unless something was sent it does not count', async (t) => {
  const webhook = await scene(7);
  await setThrottle(webhook, `failed_tries = 50, failing_since = now() - interval '6 days', failed_at = now()`);
  const ours = { statusCode: null, error: 'The try was cancelled.' } as const;
  const [sent, ...others] = (await begin(webhook, ours)).map((tried) => ({ ...tried, version: null }));
  await record([sent as WebhookAttempt, ...others.map((tried) => ({ ...tried, requestHeaders: nothingSent }))]);
  const rows = await deliveriesOf(platform(), webhook.id);
  t.deepEqual(
    rows.map(({ attempt }) => attempt).toSorted((a, b) => a - b),
    [0, 0, 0, 0, 0, 0, 1],
  );
  t.true(rows.every((row) => row.status === 'failed' && row.next_attempt_at !== null && row.job_id === null));
  t.like(await throttleOf(platform(), webhook.id), { failures: 0, failed_tries: 50, closed_until: null });
  t.true(await isActive(webhook));
});

test('the last try that was not sent is made once more; one that was is the last', async (t) => {
  const webhook = await scene(2);
  await platform().db.query(`update webhook_deliveries set attempt = 12, attempts_before = 3 where webhook_id = $1`, [
    webhook.id,
  ]);
  const [sent, not] = (await begin(webhook, failed)).map((tried) => ({ ...tried, version: null }));
  await record([sent as WebhookAttempt, { ...(not as WebhookAttempt), requestHeaders: nothingSent }]);
  const rows = (await deliveriesOf(platform(), webhook.id)).toSorted((a, b) => a.attempt - b.attempt);
  t.deepEqual(
    rows.map((row) => [row.attempt, row.status, row.next_attempt_at === null]),
    [
      [12, 'failed', false],
      [13, 'exhausted', true],
    ],
  );
});

for (const [what, set] of [
  ['address', `url = 'http://127.0.0.1:2/'`],
  ['secret', `secret_sealed = '\\x00'`],
] as const) {
  test(`what the receiver of an earlier ${what} says does not count against the present one`, async (t) => {
    const webhook = await scene(6);
    const [first, ...others] = await begin(webhook, failed);
    await change(webhook, set);
    const notBefore = new Date(Date.now() + 3_600_000);
    await record([{ ...first, ...gone, notBefore } as WebhookAttempt, ...others]);
    t.true(await isActive(webhook));
    t.like(await throttleOf(platform(), webhook.id), { failures: 0, failing_since: null, retry_after: null });
    // It is tried at the present one, and soon.
    const rows = await deliveriesOf(platform(), webhook.id);
    t.true(rows.every((row) => row.status === 'failed' && Number(row.next_attempt_at) < Date.now() + 60_000));
  });
}

test('a change of anything else is no new receiver, and what was present is not when it is disabled', async (t) => {
  const webhook = await scene();
  const [tried] = await begin(webhook, gone);
  await change(webhook, `name = 'other', rate_per_second = 7`);
  const { toDisable } = await platform().db.transaction((tx) => recordTries(tx, [tried as WebhookAttempt]), asSystem);
  t.deepEqual(toDisable, [{ webhookId: webhook.id, version: tried?.version, reason: 'gone' }]);
  await change(webhook, `url = 'http://127.0.0.1:2/'`);
  await platform().db.transaction((tx) => disableWebhooks(tx, toDisable, () => Promise.resolve()), asSystem);
  t.true(await isActive(webhook));
});

test('each try keeps its own answer, with whatever characters; all of them go as bytes', async (t) => {
  const webhook = await scene(5);
  const bodies = ['', null, 'ä\u{1F36F}"\\\n{}', '"'.repeat(65_536), 'last'];
  const tries = (await begin(webhook)).map((tried, n) => ({ ...tried, responseBody: bodies[n] ?? null }));
  const arrays: string[] = [];
  await platform().db.transaction((tx) => {
    const query: typeof tx.query = (sql, values = [], name) => {
      arrays.push(JSON.stringify(values.filter((value) => Array.isArray(value))));
      return tx.query(sql, values, name);
    };
    return recordTries({ ...tx, query }, tries);
  }, asSystem);
  t.false(arrays.some((text) => text.includes('last') || text.length > 65_536));
  const kept = new Map((await deliveriesOf(platform(), webhook.id)).map((row) => [row.id, row.response_body]));
  t.deepEqual(
    tries.map(({ deliveryId }) => kept.get(deliveryId)),
    tries.map(({ responseBody }) => responseBody),
  );
});

test('every try of a delivery is kept, the last 50 of them', async (t) => {
  const webhook = await scene(1);
  const { db } = platform();
  const tried = async (how: Partial<WebhookAttempt>): Promise<void> => record(await begin(webhook, how));
  const keptTries = async () => {
    const sql = 'select attempts, response_truncated from webhook_deliveries where webhook_id = $1';
    const [row] = await db.query<Pick<DeliveryRow, 'attempts' | 'response_truncated'>>(sql, [webhook.id]);
    return row ?? { attempts: [], response_truncated: false };
  };
  await tried({
    statusCode: 500,
    error: 'It said 500.',
    responseTimeMs: 12,
    responseBody: 'x',
    responseTruncated: true,
  });
  await tried({ statusCode: null, error: 'Nobody answered.' });
  await tried({ requestHeaders: nothingSent, error: 'The try was cancelled.' });
  await tried({ statusCode: 200, error: null });
  const { attempts, response_truncated } = await keptTries();
  t.deepEqual(
    attempts.map(({ status_code, error, response_time_ms }) => [status_code, error, response_time_ms]),
    [
      [500, 'It said 500.', 12],
      [null, 'Nobody answered.', 1],
      [200, null, 1],
    ],
  );
  for (const { at } of attempts) t.regex(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.false(response_truncated, 'the last answer was whole');
  for (let n = 0; n < 60; n += 1) await tried({ statusCode: 300 + n, error: 'again' });
  const codes = (await keptTries()).attempts.map(({ status_code }) => status_code);
  t.deepEqual([codes.length, codes[0], codes.at(-1)], [50, 310, 359]);
});

test('whoever has a delivery sent again need not wait for the breaker', async (t) => {
  const webhook = await scene();
  await setThrottle(
    webhook,
    `failures = 7, closed_until = now() + interval '5 minutes', next_at = now() + interval '5 minutes'`,
  );
  await reopenBreaker(platform().db, webhook.id);
  const throttle = await throttleOf(platform(), webhook.id);
  t.like(throttle, { failures: 7, closed_until: null });
  t.true(Number(throttle.next_at) < Date.now() + 60_000);
});

test('two tests of a webhook may be under way, however many are asked for at a time', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  const [webhook, other] = [
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
    await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/' }),
  ];
  const ping = (webhookId: string) =>
    db.transaction(async (tx) => {
      await requireRoomForPing(tx, webhookId);
      await insertPing(tx, newPing(project.id, webhookId), newId());
    });
  const results = await Promise.allSettled(Array.from({ length: 6 }, () => ping(webhook.id)));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as ServiceError] : []));
  t.deepEqual(
    refused.map(({ code }) => code),
    ['conflict', 'conflict', 'conflict', 'conflict'],
  );
  await t.notThrowsAsync(ping(other.id));
  await db.query('update webhook_deliveries set job_id = null where webhook_id = $1', [webhook.id]);
  await t.notThrowsAsync(ping(webhook.id));
});
