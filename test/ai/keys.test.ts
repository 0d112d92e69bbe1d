import test from 'ava';
import { createProviderKeys } from '#domain/ai/keys/keys.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type AiScene, addKey, aiScene } from './gateway-scene.ts';

const platform = usePlatform(test);

const secret = 'sk-proj-abcdefghijklmnop1234';
const nowhere = 'http://127.0.0.1:9/v1';

const entryOf = async ({ ask }: AiScene, provider: string) => {
  const { body } = await ask('GET', '/providers');
  return body.providers.find((one: { provider: string }) => one.provider === provider);
};

test('all six providers are listed, configured or not', async (t) => {
  const { ask } = await aiScene(platform());
  const { status, body } = await ask('GET', '/providers');
  t.is(status, 200);
  t.is(body.total, 6);
  t.deepEqual(
    body.providers.map((one: { provider: string }) => one.provider),
    ['openai', 'anthropic', 'google', 'groq', 'deepseek', 'xai'],
  );
  t.deepEqual(body.providers[1], {
    provider: 'anthropic',
    configured: false,
    masked_key: null,
    base_url: null,
    supports: { chat: true, stream: true, embeddings: false },
    created_at: null,
    updated_at: null,
    last_tested_at: null,
    last_test_ok: null,
  });
});

test('a key is added with 201, changed with 200, and shown masked', async (t) => {
  const scene = await aiScene(platform());
  const added = await scene.ask('POST', '/providers', { provider: 'openai', api_key: secret });
  t.is(added.status, 201);
  t.is(added.body.masked_key, 'sk-proj-••••1234');
  t.true(added.body.configured);
  const changed = await scene.ask('POST', '/providers', { provider: 'openai', api_key: 'short' });
  t.is(changed.status, 200);
  t.is(changed.body.masked_key, '••••••••');
  t.is(changed.body.created_at, added.body.created_at);
  t.deepEqual(await entryOf(scene, 'openai'), changed.body);
});

test('no answer, no log line, no audit entry and no row holds a key', async (t) => {
  const scene = await aiScene(platform());
  const key = 'sk-0123456789-not-to-be-seen-9999';
  const added = await scene.ask('POST', '/providers', { provider: 'groq', api_key: key });
  const list = await scene.ask('GET', '/providers');
  const { db } = platform();
  const rows = await db.query(
    `select k.*, encode(api_key_sealed, 'escape') as sealed from ai_provider_keys k where project_id = $1`,
    [scene.project.id],
  );
  const audit = await db.query('select * from audit_entries a where row_to_json(a)::text like $1', [
    '%ai_provider_key%',
  ]);
  t.true(audit.length > 0);
  for (const text of [added.text, list.text, JSON.stringify(rows), JSON.stringify(audit), platform().logged()]) {
    t.false(text.includes('not-to-be-seen'));
  }
});

test('a key that could break a header, an unknown provider or a field too many is 400', async (t) => {
  const { ask } = await aiScene(platform());
  const bad = [
    { provider: 'openai', api_key: 'two words' },
    { provider: 'openai', api_key: 'a\r\nX-Evil: 1' },
    { provider: 'openai', api_key: 'tab\t' },
    { provider: 'openai', api_key: 'schlüssel' },
    { provider: 'openai', api_key: 'nul\0' },
    { provider: 'openai', api_key: '' },
    { provider: 'openai', api_key: 'x'.repeat(5000) },
    { provider: 'openai', api_key: 7 },
    { provider: 'openai' },
    { provider: 'openai', base_url: nowhere },
    { provider: 'openai', api_key: '••••••••' },
    { provider: 'OpenAI', api_key: secret },
    { provider: 'mistral', api_key: secret },
    { provider: 'openai', api_key: secret, model: 'x' },
    { api_key: secret },
  ];
  for (const body of bad) {
    const answer = await ask('POST', '/providers', body);
    t.is(answer.status, 400, JSON.stringify(body));
    t.is(answer.body.code, 'validation_failed', answer.text);
  }
  t.is(
    (await ask('GET', '/providers')).body.providers.filter((one: { configured: boolean }) => one.configured).length,
    0,
  );
});

test('a base URL is kept in one form; what may not be reached is 400', async (t) => {
  const scene = await aiScene(platform());
  const { body } = await addKey(scene, 'openai', 'http://127.0.0.1:9/v1///');
  t.is(body.base_url, nowhere);
  const bad = [
    'nonsense',
    'ftp://example.com',
    'https://user:pass@example.com/v1',
    'https://example.com/v1?key=1',
    'https://example.com/v1#x',
    'http://10.0.0.1/v1',
    'https://169.254.169.254/latest',
    'http://1.1.1.1/v1',
    'https://[fd00::1]/',
  ];
  for (const url of bad) {
    const answer = await scene.ask('POST', '/providers', { provider: 'openai', api_key: secret, base_url: url });
    t.is(answer.status, 400, url);
    t.is(answer.body.details[0].path, 'base_url', answer.text);
  }
  t.is((await entryOf(scene, 'openai')).base_url, nowhere);
});

test('another base URL needs the key again; a masked key keeps it', async (t) => {
  const scene = await aiScene(platform());
  const { body: added } = await addKey(scene, 'openai', nowhere, secret);
  const post = (fields: object) => scene.ask('POST', '/providers', { provider: 'openai', ...fields });
  for (const fields of [
    { api_key: added.masked_key, base_url: 'http://127.0.0.1:10/v1' },
    { api_key: added.masked_key, base_url: null },
    { base_url: 'http://127.0.0.1:10/v1' },
  ]) {
    const refused = await post(fields);
    t.is(refused.status, 400);
    t.is(refused.body.code, 'secret_required');
  }
  for (const fields of [
    { api_key: added.masked_key },
    { api_key: added.masked_key, base_url: nowhere },
    { base_url: `${nowhere}/` },
  ]) {
    const kept = await post(fields);
    t.is(kept.status, 200, kept.text);
    t.deepEqual(kept.body, added);
  }
  t.is((await post({ api_key: 'sk-proj-••••9999' })).status, 400);
  const moved = await post({ api_key: 'sk-another-key-000000000', base_url: null });
  t.is(moved.status, 200);
  t.is(moved.body.base_url, null);
});

test('a key is deleted once, and a provider that is none is 404', async (t) => {
  const scene = await aiScene(platform());
  await addKey(scene, 'xai', null);
  t.is((await scene.ask('DELETE', '/providers/xai')).status, 204);
  t.is((await scene.ask('DELETE', '/providers/xai')).status, 404);
  t.is((await scene.ask('DELETE', '/providers/nobody')).status, 404);
  t.is((await scene.ask('POST', '/providers/nobody/test')).status, 404);
  t.is((await scene.ask('POST', '/providers/xai/test')).status, 409);
  t.false((await entryOf(scene, 'xai')).configured);
});

test('twenty that add a key at once leave one', async (t) => {
  const scene = await aiScene(platform());
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      scene.ask('POST', '/providers', { provider: 'google', api_key: `AIza-number-${1000 + i}-of-many` }),
    ),
  );
  t.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [...Array.from({ length: 19 }, () => 200), 201],
  );
});

/** As a process of its own would have them. */
const keysOf = async (scene: AiScene, isSubscribed = true) => {
  const { db, config } = platform();
  let queries = 0;
  const ring = openKeyRing(config.PLINTH_SECRET_KEYS);
  const keys = createProviderKeys({
    db: {
      query: (...args) => {
        queries += 1;
        return db.query(...args);
      },
    },
    sealer: ({ id, data_key }) => ring.sealerFor(id, data_key),
    isSubscribed: () => isSubscribed,
  });
  const project = await findProject(db, scene.project.id);
  if (project === undefined) throw new Error('there is no project');
  return { keys, project, queries: () => queries };
};

test('keys for use are read once, and again when they were changed', async (t) => {
  const scene = await aiScene(platform());
  await addKey(scene, 'openai', nowhere, secret);
  const { keys, project, queries } = await keysOf(scene);
  t.deepEqual((await keys.find(project, 'openai'))?.target, { baseUrl: nowhere, apiKey: secret, isVendor: false });
  t.is(await keys.find(project, 'groq'), undefined);
  t.is(queries(), 1);
  keys.forget(project.id);
  await keys.all(project);
  t.is(queries(), 2);
  const unsubscribed = await keysOf(scene, false);
  await unsubscribed.keys.all(project);
  await unsubscribed.keys.all(project);
  t.is(unsubscribed.queries(), 2);
});

test('what was read before a change is not kept after it', async (t) => {
  const scene = await aiScene(platform());
  await addKey(scene, 'openai', null, secret);
  const { keys, project, queries } = await keysOf(scene);
  const reading = keys.all(project);
  keys.forget(project.id);
  await reading;
  await keys.all(project);
  t.is(queries(), 2);
});

test('a row that is moved to another provider or project does not open', async (t) => {
  const [one, other] = [await aiScene(platform()), await aiScene(platform())];
  await addKey(one, 'openai', null, secret);
  const { db } = platform();
  const { keys, project } = await keysOf(one, false);
  const change = (sql: string, ...values: string[]) =>
    db.transaction((tx) => tx.query(`update ai_provider_keys set ${sql} where project_id = $1`, values), systemActor);
  await change(`provider = 'groq'`, one.project.id);
  await t.throwsAsync(keys.all(project), { name: 'SecretError' });
  await change(`provider = 'openai', project_id = $2`, one.project.id, other.project.id);
  const moved = await keysOf(other, false);
  await t.throwsAsync(moved.keys.all(moved.project), { name: 'SecretError' });
});

test('other processes use a changed key at once', async (t) => {
  const scene = await aiScene(platform());
  await addKey(scene, 'openai', nowhere, secret);
  const second = await platform().startApi();
  const test = async (): Promise<{ status: number; body: { ok?: boolean; code?: string } }> => {
    const answer = await fetch(`${second}/projects/${scene.project.id}/ai/providers/openai/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${scene.user.token}` },
    });
    return { status: answer.status, body: (await answer.json()) as { ok?: boolean; code?: string } };
  };
  t.is((await test()).body.ok, false);
  await scene.ask('DELETE', '/providers/openai');
  // It hears of it a moment after the answer.
  await until(async () => (await test()).status === 409);
  t.pass();
});

test('a test of a key is noted with the key and as a call, and is no change of it', async (t) => {
  const scene = await aiScene(platform());
  const upstream = await aiUpstreamFor(t);
  const { body: added } = await addKey(scene, 'openai', upstream.openai, secret);
  const good = await scene.ask('POST', '/providers/openai/test');
  t.is(good.status, 200, good.text);
  t.deepEqual([good.body.ok, good.body.provider, good.body.error], [true, 'openai', undefined]);
  t.true(Number.isInteger(good.body.latency_ms));
  const noted = await entryOf(scene, 'openai');
  t.true(noted.last_test_ok);
  t.is(noted.updated_at, added.updated_at);
  upstream.answerWith(() => ({ status: 401, message: `no such key: ${secret}` }));
  const bad = await scene.ask('POST', '/providers/openai/test');
  t.is(bad.status, 200);
  t.false(bad.body.ok);
  t.false(bad.text.includes(secret));
  t.false((await entryOf(scene, 'openai')).last_test_ok);
  await platform().client.call('GET', `/projects/${scene.project.id}/ai/usage`, { token: scene.user.token });
  const rows = () =>
    platform().db.query<{ status: string }>(
      `select status from ai_calls where project_id = $1 and kind = 'test' order by id`,
      [scene.project.id],
    );
  await until(async () => (await rows()).every(({ status }) => status !== 'open'));
  t.deepEqual(
    (await rows()).map(({ status }) => status),
    ['success', 'error'],
  );
  const { body: changed } = await addKey(scene, 'openai', upstream.openai, 'sk-another-key-000000000');
  t.is(changed.last_tested_at, null);
});
