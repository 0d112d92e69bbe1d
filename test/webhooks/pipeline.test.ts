import { createHmac } from 'node:crypto';
import test from 'ava';
import { Webhook } from 'standardwebhooks';
import { usePlatform } from '#test/support/platform.ts';
import { type Received, type Receiver, receiverFor, withStatus } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';
import { addProject, addWebhook, deliveriesOf, deliveriesWhen, emit, hasStatus } from './pipeline-scene.ts';

const platform = usePlatform(test);

const firstOf = async (receiver: Receiver): Promise<Received> => {
  const [received] = await receiver.when(1);
  if (received === undefined) throw new Error('nothing came');
  return received;
};

const dataIn = (body: Buffer): string | undefined => /"timestamp":"[^"]+",(.*)\}$/s.exec(body.toString())?.[1];

test('an event arrives signed: as the interface has it, and as Standard Webhooks has it', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: `${receiver.url}/in?x=1`, events: ['auth.signup'] });
  const [eventId] = await emit(platform(), project.id, 'auth.signup', ['{"id":"u1","n":12345678901234567890.10}']);
  const { path, headers, body } = await firstOf(receiver);
  t.is(path, '/in?x=1');
  t.is(headers['x-webhook-signature'], createHmac('sha256', webhook.secret).update(body).digest('hex'));
  t.deepEqual(new Webhook(webhook.secret).verify(body, headers as Record<string, string>), JSON.parse(body.toString()));
  t.is(headers['webhook-id'], eventId);
  t.is(headers['x-webhook-event'], 'auth.signup');
  t.regex(headers['user-agent'] ?? '', /^plinth-webhooks\/\d+\.\d+\.\d+$/);
  t.is(headers['x-webhook-secret'], undefined);
  t.is(dataIn(body), '"data":{"id":"u1","n":12345678901234567890.10}');
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  t.like(row, { attempt: 1, status_code: 200, error: null, next_attempt_at: null, event_id: eventId });
});

test('a secret of any other form is the key as it is', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  await addWebhook(platform(), project, { url: receiver.url, secret: 'plain-secret-1' });
  await emit(platform(), project.id, 'auth.login');
  const { headers, body } = await firstOf(receiver);
  t.notThrows(() => new Webhook('plain-secret-1', { format: 'raw' }).verify(body, headers as Record<string, string>));
});

test('after a rotation both secrets sign beside each other, the plain signature is of the new one', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const old = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const webhook = await addWebhook(platform(), project, { url: receiver.url, previousSecret: old });
  await emit(platform(), project.id, 'auth.login');
  const { headers, body } = await firstOf(receiver);
  for (const secret of [old, webhook.secret]) {
    t.notThrows(() => new Webhook(secret).verify(body, headers as Record<string, string>));
  }
  t.is(headers['x-webhook-signature'], createHmac('sha256', webhook.secret).update(body).digest('hex'));
});

test('the secret itself goes out only where it is asked for, and is never kept', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url, sendSecret: true });
  await emit(platform(), project.id, 'auth.login');
  t.is((await firstOf(receiver)).headers['x-webhook-secret'], webhook.secret);
  const rows = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  const jobs = await platform().db.query('select * from jobs where project_id = $1', [project.id]);
  const kept = JSON.stringify([rows, jobs]) + platform().logged();
  t.true(kept.includes('webhook-signature'));
  t.false(kept.includes(webhook.secret) || kept.includes(webhook.secret.slice('whsec_'.length)));
});

test('writes to tables are called as each webhook asked for them; who asked twice is told once', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const requests = {
    db: ['db.update'],
    table: ['table.users.UPDATE'],
    tables: ['table.users.*'],
    both: ['db.update', 'table.users.UPDATE'],
    all: ['*'],
    others: ['db.insert', 'table.orders.*', 'auth.*'],
  } as const;
  const webhooks = new Map<string, string>();
  for (const [name, events] of Object.entries(requests)) {
    webhooks.set(name, (await addWebhook(platform(), project, { url: `${receiver.url}/${name}`, events })).id);
  }
  await emit(platform(), project.id, 'table.users.UPDATE', ['{"row":{"x":9007199254740995},"old":{"x":0.10}}']);
  await receiver.when(5);
  const reported = receiver.received.map(({ path, body, headers }) => {
    t.is(JSON.parse(body.toString()).event, headers['x-webhook-event']);
    t.is(dataIn(body), '"data":{"x":9007199254740995},"old":{"x":0.10}');
    return `${path} ${String(headers['x-webhook-event'])}`;
  });
  t.deepEqual(reported.toSorted(), [
    '/all db.update',
    '/both db.update',
    '/db db.update',
    '/table table.users.UPDATE',
    '/tables table.users.UPDATE',
  ]);
  t.deepEqual(await deliveriesOf(platform(), webhooks.get('others') ?? ''), []);
  t.is(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1);
});

test('what happens while a webhook is inactive is listed as skipped, and sent to nobody', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const inactive = await addWebhook(platform(), project, { url: `${receiver.url}/off`, active: false });
  await addWebhook(platform(), project, { url: `${receiver.url}/on` });
  await emit(platform(), project.id, 'auth.login');
  await receiver.when(1);
  const [row] = await deliveriesWhen(platform(), inactive.id, { fits: hasStatus('skipped') });
  t.like(row, { attempt: 0, next_attempt_at: null });
  t.deepEqual(
    receiver.received.map(({ path }) => path),
    ['/on'],
  );
});

test('an event that nobody subscribes to any more is dropped; what nobody ever subscribed to is not kept', async (t) => {
  const { db } = platform();
  const project = await addProject(platform());
  await emit(platform(), project.id, 'auth.login');
  const all = () => db.query('select id from outbox_events where project_id = $1', [project.id]);
  t.deepEqual(await all(), []);
  const webhook = await addWebhook(platform(), project, { url: 'http://127.0.0.1:1/', events: ['auth.login'] });
  await db.transaction(
    async (tx) => {
      await tx.query(`insert into outbox_events (project_id, event, data) values ($1, 'auth.login', '{}')`, [
        project.id,
      ]);
      await tx.query(`update webhooks set events = '{auth.signup}' where id = $1`, [webhook.id]);
    },
    { 'plinth.actor': '{"type":"system"}' },
  );
  await until(async () => (await all()).length === 0);
  t.deepEqual(await deliveriesOf(platform(), webhook.id), []);
});

test('of many events that one statement writes those are kept that somebody subscribes to', async (t) => {
  const { db } = platform();
  const [some, none] = [await addProject(platform()), await addProject(platform())];
  await addWebhook(platform(), some, { url: 'http://127.0.0.1:1/', events: ['auth.login'], active: false });
  await db.query(
    `insert into outbox_events (project_id, event, data)
     select project, event, '{}' from generate_series(1, 3), unnest($1::uuid[]) as project,
       unnest(array['auth.login', 'auth.login', 'auth.signup']) as event`,
    [[some.id, none.id]],
  );
  const kept = await db.query(
    'select project_id, event, count(*)::int as count from outbox_events where project_id = any ($1) group by 1, 2',
    [[some.id, none.id]],
  );
  t.deepEqual(kept, [{ project_id: some.id, event: 'auth.login', count: 6 }]);
});

/** A JSON text of that length. */
const text = (bytes: number): string => `"${'x'.repeat(bytes - 2)}"`;

test('of data over 256 KB there is a link, and the link leads to all of them', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  const limit = 256 * 1024;
  await emit(platform(), project.id, 'auth.login', [text(limit)]);
  t.is(dataIn((await firstOf(receiver)).body), `"data":${text(limit)}`);
  await emit(platform(), project.id, 'auth.login', [text(limit + 1)]);
  const large = (await receiver.when(2))[1];
  const reported = JSON.parse(large?.body.toString() ?? '') as Record<string, string>;
  t.deepEqual(Object.keys(reported), ['id', 'event', 'project_id', 'timestamp', 'data_url']);
  t.notThrows(() => new Webhook(webhook.secret).verify(large?.body ?? '', large?.headers as Record<string, string>));
  const link = new URL(reported['data_url'] ?? '');
  const answer = await fetch(`${platform().base}${link.pathname}${link.search}`);
  t.is(await answer.text(), text(limit + 1));
});

test('chats get a message of their own, unsigned, by the same way', async (t) => {
  const receiver = await receiverFor(t);
  const project = await addProject(platform());
  const slack = await addWebhook(platform(), project, { url: `${receiver.url}/T1/secret`, kind: 'slack' });
  await emit(platform(), project.id, 'functions.error', ['{"status":"error"}']);
  const { path, headers, body } = await firstOf(receiver);
  t.is(path, '/T1/secret');
  t.is(headers['webhook-signature'], undefined);
  t.truthy((JSON.parse(body.toString()) as { text?: string }).text);
  const rows = await deliveriesWhen(platform(), slack.id, { fits: hasStatus('success') });
  t.false(JSON.stringify(rows).includes('T1/secret'));
});

test('what the receiver says is kept, its first 64 KB, whatever bytes they are', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer((response) =>
    response.end(Buffer.concat([Buffer.from([0x61, 0, 0xff]), Buffer.alloc(100_000, 'b')])),
  );
  const project = await addProject(platform());
  const webhook = await addWebhook(platform(), project, { url: receiver.url });
  await emit(platform(), project.id, 'auth.login');
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  t.is(row?.response_body, `a\uFFFD\uFFFD${'b'.repeat(64 * 1024 - 3)}`);
  t.true(row?.response_truncated);
});

test('a table of any name can be told of', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(204));
  const project = await addProject(platform());
  await addWebhook(platform(), project, { url: receiver.url, events: ['table.*'] });
  await emit(platform(), project.id, 'table.Töpfe \u{1F36F}.INSERT', ['{"row":{}}']);
  const { headers, body } = await firstOf(receiver);
  t.is(headers['x-webhook-event'], encodeURIComponent('table.Töpfe \u{1F36F}.INSERT'));
  t.is(JSON.parse(body.toString()).event, 'table.Töpfe \u{1F36F}.INSERT');
});
