import test from 'ava';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import { rollUp } from '#domain/ai/usage/roll-up.ts';
import type { CallEnd, CallIntent } from '#domain/ai/usage/usage.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { createScene, saying } from './chat-scene.ts';
import { madeEnd, madeIntent, silent } from './usage-scene.ts';

const platform = usePlatform(test);

interface Call {
  readonly id: string;
  readonly status: string;
}

interface Group {
  readonly model: string;
  readonly api_key_id: string | null;
  readonly requests: number;
  readonly failed: number;
  readonly prompt_tokens: number;
  readonly cost_nano_usd: number;
}

const scene = async () => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const log = createCallLog({ db, log: silent });
  const ask = (path: string, token = user.token): Promise<Answer> =>
    client.call('GET', `/projects/${project.id}/ai/${path}`, { token });
  const ended = async (intent: Partial<CallIntent> = {}, end: Partial<CallEnd> = {}): Promise<string> => {
    const made = madeIntent(project.id, intent);
    log.begin(made).end(madeEnd(end));
    await log.settled();
    return made.id;
  };
  const idsOf = async (query: string): Promise<string[]> => {
    const { status, body, text } = await ask(`calls?${query}`);
    if (status !== 200) throw new Error(text);
    return body.calls.map(({ id }: Call) => id);
  };
  return { user, project, log, ask, ended, idsOf };
};

test('calls are found by model, key, status, kind, day and request, the latest first', async (t) => {
  const { ask, ended, idsOf } = await scene();
  const [key, other] = [newId(), newId()];
  const yesterday = new Date(Date.now() - 86_400_000);
  const first = await ended({ apiKeyId: key, requestId: 'r-1' });
  const second = await ended({ model: 'gpt "5" <b>', kind: 'stream', apiKeyId: other }, { ttftMs: 3 });
  const third = await ended(
    { provider: 'anthropic', model: 'claude', requestId: 'r-1' },
    { status: 'error', errorCode: 'provider_rejected', errorMessage: 'no \0 <i>luck</i>\n\u202E', retries: 2 },
  );
  const today = new Date().toISOString().slice(0, 10);
  const cases: readonly (readonly [query: string, expected: readonly string[]])[] = [
    ['', [third, second, first]],
    ['provider=openai', [second, first]],
    [`model=${encodeURIComponent('gpt "5" <b>')}`, [second]],
    [`api_key_id=${key}`, [first]],
    ['api_key_id=none', [third]],
    [`api_key_id=${newId()}`, []],
    ['status=error', [third]],
    ['status=open', []],
    ['kind=stream', [second]],
    ['request_id=r-1', [third, first]],
    ['request_id=r-1&status=success', [first]],
    ['request_id=r', []],
    [`day=${today}`, [third, second, first]],
    [`day=${yesterday.toISOString().slice(0, 10)}`, []],
  ];
  for (const [query, expected] of cases) t.deepEqual(await idsOf(query), expected, query);
  t.like((await ask(`calls/${third}`)).body, {
    id: third,
    error_code: 'provider_rejected',
    error_message: 'no <i>luck</i>',
    retries: 2,
    api_key_id: null,
  });
});

test('pages follow each other without a gap or a repetition while calls begin and end', async (t) => {
  const { project, log, ask, ended } = await scene();
  const underWay = log.begin(madeIntent(project.id));
  await underWay.recorded;
  for (let made = 0; made < 12; made += 1) await ended();
  const expected = (await ask('calls?limit=200')).body.calls.map(({ id }: Call) => id);
  t.is(expected.length, 13);
  const seen: string[] = [];
  let next: string | null = '';
  while (next !== null) {
    const { body } = await ask(`calls?limit=3${next === '' ? '' : `&cursor=${next}`}`);
    seen.push(...body.calls.map(({ id }: Call) => id));
    ({ next } = body);
    // One that ends meanwhile stays where it began, and what begins comes before what was read.
    underWay.end(madeEnd());
    await ended();
  }
  t.deepEqual(seen, expected);
});

test('what is no filter is 400, and a call of somebody else is not found', async (t) => {
  const [one, other] = [await scene(), await scene()];
  const id = await one.ended({ requestId: 'mine' });
  for (const query of [
    'limit=0',
    'limit=201',
    'cursor=x',
    'status=good',
    'kind=x',
    'day=2026-02-30',
    'day=yesterday',
    'api_key_id=x',
    'model=',
  ])
    isError(t, await one.ask(`calls?${query}`), 400, 'validation_failed');
  isError(t, await other.ask(`calls/${id}`), 404, 'not_found');
  t.deepEqual(await other.idsOf('request_id=mine'), []);
  t.deepEqual(await other.idsOf(`cursor=${newId()}`), []);
  for (const path of ['calls', `calls/${id}`, 'usage/groups'])
    isError(t, await one.ask(path, other.user.token), 404, 'not_found');
  const viewer = await addMember(platform(), one.project.orgId, 'viewer');
  t.is((await one.ask(`calls/${id}`, viewer.token)).status, 200);
});

test('usage is added up by day, model and key, before and after the days are', async (t) => {
  const { ask, ended } = await scene();
  const { db } = platform();
  const key = newId();
  const longAgo = new Date(Date.now() - 5 * 86_400_000);
  await ended({ apiKeyId: key });
  await ended({ apiKeyId: key }, { status: 'error', usage: null, costNanoUsd: null });
  await ended({ model: 'b' });
  const before = (await ask('usage/groups')).body;
  t.deepEqual(
    before.groups.map(
      ({ model, api_key_id: of, requests, failed, prompt_tokens: tokens, cost_nano_usd: cost }: Group) => [
        model,
        of,
        requests,
        failed,
        tokens,
        cost,
      ],
    ),
    [
      ['b', null, 1, 0, 3, 10],
      ['gpt-4o-mini', key, 2, 1, 3, 10],
    ],
  );
  t.false(before.is_cut);
  t.is((await ask(`usage/groups?api_key_id=${key}`)).body.groups.length, 1);
  t.is((await ask('usage/groups?api_key_id=none')).body.groups[0].model, 'b');
  t.deepEqual((await ask('usage/groups?provider=google')).body.groups, []);
  // The same calls, as if they had been made days ago, are in the sums of their days.
  await db.query(
    `update ai_calls set started_at = $2,
       id = (overlay(id::text placing substr($3::text, 1, 13) from 1 for 13))::uuid
     where project_id = (select project_id from ai_calls where api_key_id = $1 limit 1)`,
    [key, longAgo, firstIdAt(longAgo.getTime())],
  );
  await rollUp(db);
  await db.query(`update ai_usage_rolled set closed_at = now() - interval '1 hour'`);
  await rollUp(db);
  const day = longAgo.toISOString().slice(0, 10);
  const after = (await ask('usage/groups')).body;
  t.deepEqual(
    after.groups,
    before.groups.map((group: object) => ({ ...group, day })),
  );
  t.deepEqual((await ask('usage/groups?days=2')).body.groups, []);
  for (const query of ['days=0', 'days=366', 'api_key_id=x'])
    isError(t, await ask(`usage/groups?${query}`), 400, 'validation_failed');
});

test('a call says by which key it was made, how often its provider was asked again, and what it said', async (t) => {
  const made = await createScene(platform());
  t.teardown(() => made.upstream.close());
  const { user, project, upstream } = made;
  const { client } = platform();
  let attempts = 0;
  upstream.answerWith(() => (attempts++ < 2 ? { status: 503, message: 'busy' } : { text: 'good' }));
  const good = await client.call('POST', '/api/ai/chat', { key: project.key, body: saying('x') });
  t.is(good.status, 200, good.text);
  upstream.answerWith(() => ({ status: 400, message: `<b>bad</b> sk-test-openai-0123456789` }));
  const body = saying('x');
  const bad = await client.call('POST', `/projects/${project.id}/ai/chat`, { token: user.token, body });
  t.is(bad.status, 400, bad.text);
  const find = async (answer: Answer) => {
    const id = answer.headers.get('x-request-id') ?? '';
    const { body: found } = await client.call('GET', `/projects/${project.id}/ai/calls?request_id=${id}`, {
      token: user.token,
    });
    return found.calls[0];
  };
  const keys = await client.call('GET', `/projects/${project.id}/api-keys`, { token: user.token });
  const ids = keys.body.api_keys.map(({ id }: Call) => id);
  const first = await find(good);
  t.like(first, { status: 'success', retries: 2, error_message: null });
  t.true(ids.includes(first.api_key_id));
  const second = await find(bad);
  t.like(second, { status: 'error', retries: 0, error_code: 'provider_rejected', api_key_id: null });
  t.regex(second.error_message, /<b>bad<\/b>/);
  t.notRegex(second.error_message, /0123456789/);
});
