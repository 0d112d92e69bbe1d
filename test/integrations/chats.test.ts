import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { serveProvider } from '#test/support/provider-server.ts';
import { until } from '#test/support/until.ts';
import { integrationScene } from './scene.ts';

const platform = usePlatform(test);

interface Shown {
  readonly text?: string;
  readonly embeds?: readonly { readonly title: string; readonly description: string }[];
}

for (const kind of ['slack', 'discord'] as const) {
  test(`a write to a table becomes a message in ${kind}, which calls nobody`, async (t) => {
    const chat = await serveProvider(t, () => ({ status: 200, body: 'ok' }));
    const { configure, project, user } = await integrationScene(platform());
    const path = `/projects/${project.id}/db/query`;
    const sql = (text: string) => platform().client.call('POST', path, { token: user.token, body: { sql: text } });
    await sql('create table orders (id int primary key, note text)');
    const made = await configure(kind, { webhook_url: `${chat.base}/T/B/x`, events: ['table.orders.INSERT'] });
    t.is(made.status, 200, made.text);
    await sql(`insert into orders values (7, '<!channel> @everyone')`);
    const requested = await until(() => chat.requested[0]);
    t.like(requested, { method: 'POST', path: '/T/B/x' });
    t.is(requested.headers['content-type'], 'application/json; charset=utf-8');
    t.is(requested.headers['x-webhook-signature'], undefined);
    t.false(/@everyone|<!channel>/.test(requested.body));
    const { text, embeds } = JSON.parse(requested.body) as Shown;
    t.regex(text ?? embeds?.[0]?.title ?? '', /A row was inserted into orders/);
  });
}

test('a test sends the chat a message and says what came of it, also while it is inactive', async (t) => {
  let status = 200;
  const chat = await serveProvider(t, () => ({ status, body: 'invalid_token' }));
  const { ask, configure } = await integrationScene(platform());
  await configure('slack', { webhook_url: `${chat.base}/secret-path-of-it` }, { is_active: false });
  const good = await ask('POST', '/slack/test');
  t.is(good.status, 200, good.text);
  t.like(good.body, { ok: true, provider: 'slack' });
  t.is((JSON.parse(chat.requested[0]?.body ?? '{}') as Shown).text?.startsWith('Test message'), true);
  status = 403;
  const bad = await ask('POST', '/slack/test');
  t.like(bad.body, { ok: false, provider: 'slack', error: 'The receiver answered 403.' });
  t.false(bad.text.includes('secret-path'));
  // It is not tried again.
  t.is(chat.requested.length, 2);
});

test('a chat that is inactive is told nothing; what it missed is listed as skipped', async (t) => {
  const chat = await serveProvider(t, () => ({ body: 'ok' }));
  const { ask, configure, project } = await integrationScene(platform());
  await configure('discord', { webhook_url: `${chat.base}/x`, events: ['payments.*'] });
  await ask('POST', '/discord/toggle');
  const { db } = platform();
  const emit = (n: number) =>
    db.query(`insert into outbox_events (project_id, event, data) values ($1, 'payments.stripe.a', $2)`, [
      project.id,
      JSON.stringify({ n }),
    ]);
  await emit(1);
  await until(
    async () =>
      (await db.query(`select from webhook_deliveries where project_id = $1 and status = 'skipped'`, [project.id]))[0],
  );
  await ask('POST', '/discord/toggle');
  await emit(2);
  const requested = await until(() => chat.requested[0]);
  t.regex(requested.body, /n: 2/);
  t.is(chat.requested.length, 1);
});

test('an integration that is deleted is told nothing more', async (t) => {
  const [gone, left] = [await serveProvider(t, () => ({ body: 'ok' })), await serveProvider(t, () => ({ body: 'ok' }))];
  const { ask, configure, project } = await integrationScene(platform());
  await configure('slack', { webhook_url: gone.base, events: ['payments.*'] });
  await configure('discord', { webhook_url: left.base, events: ['payments.*'] });
  await ask('DELETE', '/slack');
  await platform().db.query(
    `insert into outbox_events (project_id, event, data) values ($1, 'payments.stripe.a', '{}')`,
    [project.id],
  );
  await until(() => left.requested[0]);
  t.is(gone.requested.length, 0);
});

const emitTo = (projectId: string, data: unknown): Promise<unknown> =>
  platform().db.query(`insert into outbox_events (project_id, event, data) values ($1, 'payments.stripe.a', $2)`, [
    projectId,
    JSON.stringify(data),
  ]);

for (const kind of ['slack', 'discord'] as const) {
  test(`${kind} is told that data are too large to be shown, and not that there are none`, async (t) => {
    const chat = await serveProvider(t, () => ({ body: 'ok' }));
    const { configure, project } = await integrationScene(platform());
    await configure(kind, { webhook_url: chat.base, events: ['payments.*'] });
    await emitTo(project.id, { data: { object: { text: 'x'.repeat(300_000) } } });
    const requested = await until(() => chat.requested[0]);
    t.regex(requested.body, /too large to be shown/);
  });
}

test('Discord is left alone for as long as the body of its 429 says', async (t) => {
  const body = { message: 'You are being rate limited.', retry_after: 3600.5, global: false };
  const chat = await serveProvider(t, () => ({ status: 429, headers: { 'retry-after': '1' }, body }));
  const { configure, project } = await integrationScene(platform());
  await configure('discord', { webhook_url: chat.base, events: ['payments.*'] });
  await emitTo(project.id, {});
  const { seconds } = await until(async () => {
    const [tried] = await platform().db.query<{ seconds: number }>(
      `select extract(epoch from next_attempt_at - now())::float8 as seconds from webhook_deliveries
       where project_id = $1 and status = 'failed'`,
      [project.id],
    );
    return tried;
  });
  t.true(seconds > 3000 && seconds < 3601, String(seconds));
});

test('tests with one key send one message, and answer what came of it', async (t) => {
  const chat = await serveProvider(t, () => ({ status: 403, body: 'no' }));
  const { configure, project, user } = await integrationScene(platform());
  await configure('slack', { webhook_url: chat.base });
  const path = `/projects/${project.id}/integrations/providers/slack/test`;
  const ask = (key: string, body?: unknown) =>
    platform().client.call('POST', path, {
      token: user.token,
      headers: { 'idempotency-key': key },
      ...(body !== undefined && { body }),
    });
  const together = await Promise.all(Array.from({ length: 8 }, () => ask('one')));
  const answers = [...together, await ask('one')];
  const expected = { ok: false, provider: 'slack', error: 'The receiver answered 403.' };
  for (const answer of answers) t.like(answer.body, expected, answer.text);
  t.is(new Set(answers.map(({ body }) => body.latency_ms)).size, 1);
  t.is(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true').length, 8);
  t.is(chat.requested.length, 1);
  isError(t, await ask('one', {}), 422, 'idempotency_mismatch');
  t.is((await ask('other')).status, 200);
  t.is(chat.requested.length, 2);
});
