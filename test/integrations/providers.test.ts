import test from 'ava';
import { serveProvider } from '#test/support/provider-server.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type IntegrationScene, integrationScene } from './scene.ts';

const platform = usePlatform(test);

const stripe = { secret_key: 'sk_live_0123456789abcdef', webhook_secret: 'whsec_0123456789abcdefghij' };
const slackUrl = 'https://hooks.slack.com/services/T0000/B0000/abcdefghijklmnop';

const webhooksOf = (projectId: string) =>
  platform().db.query<{
    kind: string;
    events: string[];
    is_active: boolean;
    rate_per_second: number;
    url: string | null;
  }>(
    'select kind, events, is_active, rate_per_second, url from webhooks where project_id = $1 and deleted_at is null',
    [projectId],
  );

test('all six providers are listed, none of them configured at first', async (t) => {
  const { ask } = await integrationScene(platform());
  const { status, body } = await ask('GET', '');
  t.is(status, 200);
  t.is(body.total, 6);
  t.deepEqual(
    body.providers.map((one: { provider: string; category: string }) => [one.provider, one.category]),
    [
      ['slack', 'messaging'],
      ['discord', 'messaging'],
      ['resend', 'email'],
      ['stripe', 'payments'],
      ['paypal', 'payments'],
      ['razorpay', 'payments'],
    ],
  );
  for (const one of body.providers) t.like(one, { configured: false, is_active: false, config: {} });
});

test('a provider is configured, masked, changed, toggled and deleted', async (t) => {
  const { ask, configure } = await integrationScene(platform());
  const made = await configure('stripe', stripe);
  t.is(made.status, 200);
  const masked = { secret_key: 'sk_live_••••cdef', webhook_secret: 'whsec_••••ghij' };
  const active = { provider: 'stripe', category: 'payments', configured: true, is_active: true, config: masked };
  t.deepEqual(made.body, active);
  const listed = await ask('GET', '');
  t.deepEqual(listed.body.providers[3], active);

  t.deepEqual((await configure('stripe', masked, { is_active: false })).body, { ...active, is_active: false });
  // Left out, it stays as it was.
  t.false((await configure('stripe', { secret_key: 'sk_live_other_0123456789' })).body.is_active);
  t.true((await ask('POST', '/stripe/toggle')).body.is_active);
  const off = await ask('POST', '/stripe/toggle');
  t.like(off.body, { configured: true, is_active: false });
  t.is(off.body.config.webhook_secret, masked.webhook_secret);

  const gone = await ask('DELETE', '/stripe');
  t.is(gone.status, 204);
  t.like((await ask('GET', '')).body.providers[3], { configured: false, is_active: false, config: {} });
});

test('no secret is in an answer, in the audit log, in the log or readable in the database', async (t) => {
  const { ask, configure, project, user } = await integrationScene(platform());
  const secrets = ['sk_live_never_shown_0123', 'whsec_never_shown_4567', 'services/T/B/never_shown_89'];
  const answers = [
    await configure('stripe', { secret_key: secrets[0], webhook_secret: secrets[1] }),
    await configure('slack', { webhook_url: `https://hooks.slack.com/${secrets[2]}` }),
    await ask('POST', '/slack/toggle'),
    await ask('GET', ''),
    await platform().client.call('GET', '/team/audit-log', {
      token: user.token,
      headers: { 'x-org-id': project.orgId },
    }),
  ];
  const { db, logged } = platform();
  const rows = await db.query<{ kept: string }>(
    `select concat((select json_agg(i) from integrations i where project_id = $1),
       (select json_agg(w) from webhooks w where project_id = $1),
       (select json_agg(a) from audit_entries a where project_id = $1)) as kept`,
    [project.id],
  );
  const everything = [...answers.map(({ text }) => text), rows[0]?.kept, logged()].join('\n');
  for (const secret of secrets) t.false(everything.includes(secret));
  t.is(
    (
      await db.query('select from audit_entries where project_id = $1 and target_type = $2', [
        project.id,
        'integration',
      ])
    ).length,
    3,
  );
});

test('every change is in the audit log, a changed secret by its version', async (t) => {
  const { ask, configure, project } = await integrationScene(platform());
  await configure('stripe', stripe);
  await configure('stripe', { ...stripe, secret_key: 'sk_live_another_one_1234' });
  await ask('POST', '/stripe/toggle');
  await ask('DELETE', '/stripe');
  const entries = await platform().db.query<{ action: string; after: Record<string, unknown> | null }>(
    `select action, after from audit_entries where project_id = $1 and target_type = 'integration' order by id`,
    [project.id],
  );
  t.deepEqual(
    entries.map(({ action }) => action),
    ['create', 'update', 'update', 'delete'].map((what) => `integration.${what}`),
  );
  t.deepEqual(entries[1]?.after, { config_version: 2 });
  t.deepEqual(entries[2]?.after, { is_active: false });
});

test('a chat has a webhook that stays in step, and that the webhook endpoints do not show', async (t) => {
  const one = await integrationScene(platform());
  const { ask, configure, project, user } = one;
  await configure('slack', { webhook_url: slackUrl });
  await configure('discord', { webhook_url: 'https://discord.com/api/webhooks/1/abc', events: ['functions.error'] });
  t.deepEqual(
    (await webhooksOf(project.id)).toSorted((a, b) => a.kind.localeCompare(b.kind)),
    [
      { kind: 'discord', events: ['functions.error'], is_active: true, rate_per_second: 2, url: null },
      { kind: 'slack', events: ['*'], is_active: true, rate_per_second: 1, url: null },
    ],
  );
  await ask('DELETE', '/discord');
  await configure('slack', { webhook_url: slackUrl, events: ['table.orders.INSERT', 'payments.*'] });
  await ask('POST', '/slack/toggle');
  t.deepEqual(await webhooksOf(project.id), [
    { kind: 'slack', events: ['table.orders.INSERT', 'payments.*'], is_active: false, rate_per_second: 1, url: null },
  ]);
  const list = await platform().client.call('GET', `/projects/${project.id}/integrations/webhooks`, {
    token: user.token,
  });
  t.deepEqual(list.body, { webhooks: [], total: 0 });
  await ask('DELETE', '/slack');
  t.deepEqual(await webhooksOf(project.id), []);
  t.is((await configure('slack', { webhook_url: slackUrl })).status, 200);
});

test('a chat that the platform has switched off is shown as inactive, and toggled on again begins anew', async (t) => {
  const { ask, configure, project } = await integrationScene(platform());
  await configure('slack', { webhook_url: slackUrl });
  const { db } = platform();
  await db.transaction(
    (tx) =>
      tx.query(`update webhooks set is_active = false, disabled_reason = 'x' where project_id = $1`, [project.id]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  await db.query(
    `update webhook_throttles l set failures = 9, failing_since = now() from webhooks w where w.id = l.webhook_id and w.project_id = $1`,
    [project.id],
  );
  t.false((await ask('GET', '')).body.providers[0].is_active);
  t.true((await ask('POST', '/slack/toggle')).body.is_active);
  const [throttle] = await db.query<{ failures: number; disabled_reason: string | null }>(
    'select l.failures, w.disabled_reason from webhooks w join webhook_throttles l on l.webhook_id = w.id where w.project_id = $1',
    [project.id],
  );
  t.deepEqual(throttle, { failures: 0, disabled_reason: null });
});

test('a database leaves events for what a chat asks for', async (t) => {
  const { configure, ask, project, user } = await integrationScene(platform());
  const { client, db } = platform();
  const sql = (text: string) =>
    client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql: text } });
  await sql('create table orders (id int primary key)');
  await configure('slack', { webhook_url: slackUrl, events: ['table.orders.INSERT'] }, { is_active: false });
  const left = await db.query('select from subscriptions_to_set where project_id = $1', [project.id]);
  t.is(left.length, 0);
  await ask('DELETE', '/slack');
  t.is((await db.query('select from subscriptions_to_set where project_id = $1', [project.id])).length, 0);
});

// Nothing of them is kept, so that they can share a project.
let shared: Promise<IntegrationScene> | undefined;
const sharedScene = (): Promise<IntegrationScene> => (shared ??= integrationScene(platform()));

const bad: Readonly<Record<string, readonly [string, unknown, string]>> = {
  'an unknown field': ['stripe', { ...stripe, colour: 'red' }, 'config'],
  'a missing secret': ['razorpay', { key_id: 'rzp_1', key_secret: 'x' }, 'config.webhook_secret'],
  'a function that is not there': ['stripe', { ...stripe, function_id: crypto.randomUUID() }, 'config.function_id'],
  'an event that is none': ['slack', { webhook_url: slackUrl, events: ['db.insrt'] }, 'config.events.0'],
  'a private address': ['slack', { webhook_url: 'https://10.0.0.1/x' }, 'config.webhook_url'],
  'a link-local address written otherwise': ['slack', { webhook_url: 'https://0xa9fea9fe/x' }, 'config.webhook_url'],
  'an address in the open': ['slack', { webhook_url: 'http://93.184.215.14/x' }, 'config.webhook_url'],
  'the address of the other chat': [
    'slack',
    { webhook_url: 'https://discord.com/api/webhooks/1/a' },
    'config.webhook_url',
  ],
  'an address in the open that looks masked': [
    'resend',
    { api_key: 're_1', from_email: 'a@b.example', base_url: 'http://93.184.215.14/•' },
    'config.base_url',
  ],
  'a private base_url': [
    'resend',
    { api_key: 're_1', from_email: 'a@b.example', base_url: 'https://192.168.1.1' },
    'config.base_url',
  ],
};

for (const [what, [provider, config, path]] of Object.entries(bad)) {
  test(`${what} is 400, and nothing is kept`, async (t) => {
    const { ask, configure } = await sharedScene();
    const answer = await configure(provider, config);
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, path);
    t.false((await ask('GET', '')).body.providers.some((one: { configured: boolean }) => one.configured));
  });
}

test('a body that is none, an unknown provider and a provider that is not configured are refused', async (t) => {
  const { ask } = await integrationScene(platform());
  isError(t, await ask('PUT', '/stripe', { config: 'x' }), 400, 'validation_failed');
  isError(t, await ask('PUT', '/stripe', {}), 400, 'validation_failed');
  isError(t, await ask('PUT', '/stripe', { config: stripe, is_active: 'yes' }), 400, 'validation_failed');
  isError(t, await ask('PUT', '/stripe', { config: stripe, active: true }), 400, 'validation_failed');
  for (const name of ['teams', 'Stripe', 'constructor', '__proto__']) {
    isError(t, await ask('PUT', `/${name}`, { config: {} }), 404, 'not_found');
    isError(t, await ask('DELETE', `/${name}`), 404, 'not_found');
    isError(t, await ask('POST', `/${name}/toggle`), 404, 'not_found');
    isError(t, await ask('POST', `/${name}/test`), 404, 'not_found');
  }
  isError(t, await ask('DELETE', '/stripe'), 404, 'not_found');
  isError(t, await ask('POST', '/stripe/toggle'), 409, 'provider_not_configured');
  isError(t, await ask('POST', '/slack/test'), 409, 'provider_not_configured');
});

test('with another base_url the secrets are required, and what was kept stays', async (t) => {
  const { ask, configure } = await integrationScene(platform());
  const config = { api_key: 're_0123456789abcdefghij', from_email: 'a@b.example' };
  await configure('resend', config);
  const moved = { from_email: 'a@b.example', base_url: 'https://evil.example' };
  isError(t, await configure('resend', moved), 400, 'secret_required');
  isError(t, await configure('resend', { ...moved, api_key: 're_••••ghij' }), 400, 'secret_required');
  t.deepEqual((await ask('GET', '')).body.providers[2].config, { ...config, api_key: 're_••••ghij' });
});

test('viewers read, only admins and owners change', async (t) => {
  const { project, configure } = await integrationScene(platform());
  await configure('stripe', stripe);
  const { call } = platform().client;
  const path = `/projects/${project.id}/integrations/providers`;
  for (const role of ['viewer', 'developer'] as const) {
    const { token } = await addMember(platform(), project.orgId, role);
    t.is((await call('GET', path, { token })).status, 200);
    isError(t, await call('PUT', `${path}/stripe`, { token, body: { config: stripe } }), 403, 'forbidden');
    isError(t, await call('POST', `${path}/stripe/test`, { token }), 403, 'forbidden');
    isError(t, await call('POST', `${path}/stripe/toggle`, { token }), 403, 'forbidden');
    isError(t, await call('DELETE', `${path}/stripe`, { token }), 403, 'forbidden');
  }
  const { token } = await addMember(platform(), project.orgId, 'admin');
  t.is((await call('POST', `${path}/stripe/toggle`, { token })).status, 200);
});

test('what one project has configured is nowhere in another', async (t) => {
  const [mine, other] = [await integrationScene(platform()), await integrationScene(platform())];
  await mine.configure('stripe', stripe);
  t.false((await other.ask('GET', '')).body.providers[3].configured);
  const { call } = platform().client;
  const path = `/projects/${mine.project.id}/integrations/providers`;
  isError(t, await call('GET', path, { token: other.user.token }), 404, 'not_found');
  isError(t, await call('DELETE', `${path}/stripe`, { token: other.user.token }), 404, 'not_found');
});

test('twenty configurations at once leave one integration and one webhook', async (t) => {
  const { ask, configure, project } = await integrationScene(platform());
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => configure('slack', { webhook_url: `${slackUrl}${i}` })),
  );
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.is((await webhooksOf(project.id)).length, 1);
  t.true((await ask('GET', '')).body.providers[0].configured);
});

test('a test asks the provider at its base_url, and says in words what is wrong', async (t) => {
  const { ask, configure } = await integrationScene(platform());
  const server = await serveProvider(t, ({ headers }) =>
    headers.authorization === 'Bearer re_good'
      ? { body: { data: [] } }
      : { status: 403, body: { name: 'invalid_api_key' } },
  );
  const config = { api_key: 're_good', from_email: 'a@b.example', base_url: server.base };
  await configure('resend', config);
  const good = await ask('POST', '/resend/test');
  t.like(good.body, { ok: true, provider: 'resend' });
  t.true(good.body.latency_ms >= 0);
  t.deepEqual(Object.keys(good.body).toSorted(), ['latency_ms', 'ok', 'provider']);
  await configure('resend', { ...config, api_key: 're_bad' });
  const refused = await ask('POST', '/resend/test');
  t.is(refused.status, 200);
  t.like(refused.body, { ok: false, error: 'Resend refused the key (403).' });
});
