import test from 'ava';
import type { TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, insertDelivery, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;

test.before(async () => {
  owner = await platform().client.signUp();
});

const scene = (): Promise<WebhookScene> => webhookScene(platform(), owner);
const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);

const hoursAgo = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString();

interface Row {
  readonly status: string;
  readonly attempt: number;
  readonly attempts_before: number;
  readonly job_id: string | null;
  readonly finished_at: Date | null;
}

const rowOf = async (id: string): Promise<Row | undefined> => {
  const [row] = await platform().db.query<Row>('select * from webhook_deliveries where id = $1', [id]);
  return row;
};

test('a delivery is shown with what was sent and answered, its numbers as they were written', async (t) => {
  const { ask, made, project } = await scene();
  const webhookId = await made();
  const data = '{"row":{"id":9007199254740993,"price":1.10,"text":"a\\u0000b"}}';
  const { id, eventId } = await insertDelivery(platform(), webhookId, { event: 'db.insert', data });
  const path = `/webhooks/${webhookId}/deliveries`;
  const { body } = await ask('GET', `${path}/${id}`);
  const { request_body: sent, created_at: createdAt, ...rest } = body;
  t.deepEqual(rest, {
    id,
    webhook_id: webhookId,
    event: 'db.insert',
    event_id: eventId,
    attempt: 1,
    status: 'success',
    status_code: 200,
    response_time_ms: 12,
    request_headers: { 'webhook-id': 'x' },
    response_body: 'thanks',
    response_truncated: false,
    attempts: [],
    error: null,
    next_attempt_at: null,
  });
  t.true(sent.endsWith(',"data":{"id":9007199254740993,"price":1.10,"text":"a\\u0000b"}}'), sent);
  t.like(JSON.parse(sent), { id: eventId, event: 'db.insert', project_id: project.id });
  t.truthy(createdAt);
  t.deepEqual((await ask('GET', path)).body, { deliveries: [body], total: 1 });
});

test('a list leaves out long bodies, and what is gone', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const noise = Array.from({ length: 5000 }, () => crypto.randomUUID()).join('');
  const long = await insertDelivery(platform(), webhookId, {
    data: JSON.stringify(noise),
    responseBody: noise.slice(0, 5000),
  });
  // Small as it is stored, and long nevertheless.
  const dense = await insertDelivery(platform(), webhookId, { data: JSON.stringify('x'.repeat(100_000)) });
  const gone = await insertDelivery(platform(), webhookId, { data: null });
  const path = `/webhooks/${webhookId}/deliveries`;
  const listed = (await ask('GET', path)).body.deliveries as {
    id: string;
    request_body: unknown;
    response_body: unknown;
  }[];
  const bodiesOf = (id: string) => {
    const row = listed.find((each) => each.id === id);
    return [row?.request_body, row?.response_body];
  };
  t.deepEqual(
    [bodiesOf(long.id), bodiesOf(dense.id), bodiesOf(gone.id)],
    [
      [null, null],
      [null, 'thanks'],
      [null, 'thanks'],
    ],
  );
  const whole = (await ask('GET', `${path}/${long.id}`)).body;
  t.true(whole.request_body.includes(noise));
  t.is(whole.response_body, noise.slice(0, 5000));
  t.is((await ask('GET', `${path}/${gone.id}`)).body.request_body, null);
});

test('a list is filtered by status, event and time, the latest first', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const insert = (given: Parameters<typeof insertDelivery>[2]) => insertDelivery(platform(), webhookId, given);
  const old = await insert({ at: `now() - interval '2 hours'`, status: 'failed' });
  const middle = await insert({ at: `now() - interval '1 hour'`, event: 'db.insert' });
  const late = await insert({ status: 'skipped' });
  await insertDelivery(platform(), await made());
  const list = async (query: string) => {
    const { status, body } = await ask('GET', `/webhooks/${webhookId}/deliveries?${query}`);
    return status === 200 ? [idsOf(body.deliveries), body.total] : body.details[0].path;
  };
  t.deepEqual(await list(''), [idsOf([late, middle, old]), 3]);
  t.deepEqual(await list('limit=1&offset=1'), [[middle.id], 3]);
  t.deepEqual(await list('status=failed'), [[old.id], 1]);
  t.deepEqual(await list('event=db.insert'), [[middle.id], 1]);
  t.deepEqual(await list('event=auth.login&status=skipped'), [[late.id], 1]);
  const since = new Date(Date.now() - 90 * 60_000).toISOString();
  t.deepEqual(await list(`since=${since}`), [idsOf([late, middle]), 2]);
  t.deepEqual(await list(`since=${since}&status=failed`), [[], 0]);
  for (const bad of ['status=done', 'since=yesterday', 'limit=0', 'offset=-1', 'event=']) {
    t.is(await list(bad), bad.split('=')[0], bad);
  }
});

test('a delivery is sent once more however it ended, and its tries are counted on', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  for (const status of ['success', 'failed', 'exhausted', 'skipped']) {
    const { id, eventId } = await insertDelivery(platform(), webhookId, { status, attempt: 10 });
    const path = `/webhooks/${webhookId}/deliveries/${id}/redeliver`;
    const answer = await ask('POST', path);
    t.is(answer.status, 202);
    t.like(answer.body, { id, event_id: eventId, status: 'pending', attempt: 10 });
    t.like(await rowOf(id), { attempts_before: 10, finished_at: null });
    // No worker takes the job: it is under way from now on, or waits for its turn.
    if ((await rowOf(id))?.job_id) t.is((await ask('POST', path)).status, 409);
  }
});

test('a delivery becomes a job once it is asked for again, and is not asked for twice', async (t) => {
  const { ask, made, project } = await scene();
  const webhookId = await made();
  const { id } = await insertDelivery(platform(), webhookId);
  const path = `/webhooks/${webhookId}/deliveries/${id}/redeliver`;
  t.is((await ask('POST', path)).status, 202);
  const jobs = await platform().db.query<{ id: string; data: string }>(
    `select id, data from jobs where project_id = $1 and type = 'webhook.deliver'`,
    [project.id],
  );
  t.deepEqual(
    jobs.map(({ data }) => JSON.parse(data)),
    [{ delivery_id: id }],
  );
  t.is((await rowOf(id))?.job_id, jobs[0]?.id);
  const refused = await ask('POST', path);
  t.is(refused.status, 409);
  t.is(refused.body.message, 'The delivery is under way.');
});

test('tests, deliveries of others and those of inactive webhooks are not sent again', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const ping = await insertDelivery(platform(), webhookId, { event: 'test.ping' });
  const other = await insertDelivery(platform(), await made());
  const redeliver = (id: string) => ask('POST', `/webhooks/${webhookId}/deliveries/${id}/redeliver`);
  t.is((await redeliver(ping.id)).status, 409);
  t.is((await redeliver(other.id)).status, 404);
  const { id } = await insertDelivery(platform(), webhookId);
  await ask('PUT', `/webhooks/${webhookId}`, { active: false });
  t.is((await redeliver(id)).status, 409);
  t.is((await ask('POST', `/webhooks/${webhookId}/replay`, { since: '2026-01-01T00:00:00Z' })).status, 409);
  t.like(await rowOf(id), { status: 'success', attempts_before: 0 });
});

test('a replay takes what was made in its time, skipped ones too, but for what waits, is under way, or was a test', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const insert = (given: Parameters<typeof insertDelivery>[2]) => insertDelivery(platform(), webhookId, given);
  const replayed = await Promise.all(
    ['success', 'failed', 'exhausted', 'skipped'].map((status) => insert({ status, attempt: 3 })),
  );
  const left = [
    await insert({ at: `now() - interval '2 hours'` }),
    await insert({ event: 'test.ping' }),
    await insert({ status: 'failed', jobId: crypto.randomUUID() }),
    await insertDelivery(platform(), await made()),
  ];
  const pending = await insert({ status: 'pending', attempt: 0 });
  const body = { since: new Date(Date.now() - 3_600_000).toISOString() };
  const answer = await ask('POST', `/webhooks/${webhookId}/replay`, body);
  t.is(answer.status, 202);
  t.deepEqual(answer.body, { replayed: 4 });
  for (const { id } of replayed) t.like(await rowOf(id), { status: 'pending', attempts_before: 3 });
  for (const { id } of [...left, pending]) t.is((await rowOf(id))?.attempts_before, 0);
  t.deepEqual((await ask('POST', `/webhooks/${webhookId}/replay`, body)).body, { replayed: 0 });
});

test('a replay is bounded by its end and its statuses', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  await insertDelivery(platform(), webhookId, { at: `now() - interval '2 hours'`, status: 'skipped' });
  await insertDelivery(platform(), webhookId, { at: `now() - interval '2 hours'` });
  await insertDelivery(platform(), webhookId, { status: 'skipped' });
  const replay = (body: Record<string, unknown>) => ask('POST', `/webhooks/${webhookId}/replay`, body);
  const statuses = ['skipped'];
  t.deepEqual((await replay({ since: hoursAgo(3), until: hoursAgo(1), statuses })).body, { replayed: 1 });
  t.deepEqual((await replay({ since: hoursAgo(3), statuses })).body, { replayed: 1 });
  for (const bad of [
    {},
    { since: 'now' },
    { since: hoursAgo(1), statuses: ['pending'] },
    { since: hoursAgo(1), statuses: [] },
  ]) {
    t.is((await replay(bad)).status, 400);
  }
});

test('a replay of many goes in steps, and takes each once', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     select id, project_id, gen_random_uuid(), 'auth.login', 'skipped', now() from webhooks, generate_series(1, 11000) where id = $1`,
    [webhookId],
  );
  const body = { since: new Date(Date.now() - 3_600_000).toISOString() };
  const headers = { 'idempotency-key': 'once' };
  const answers = [
    await ask('POST', `/webhooks/${webhookId}/replay`, body, headers),
    await ask('POST', `/webhooks/${webhookId}/replay`, body, headers),
  ];
  t.deepEqual(
    answers.map((answer) => answer.body),
    [{ replayed: 11_000 }, { replayed: 11_000 }],
  );
  t.is(answers[1]?.headers.get('idempotent-replayed'), 'true');
});
