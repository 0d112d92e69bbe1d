import test from 'ava';
import { OFREPProvider } from '@openfeature/ofrep-provider';
import { OFREPWebProvider } from '@openfeature/ofrep-web-provider';
import { OpenFeature } from '@openfeature/server-sdk';
import { OpenFeature as WebOpenFeature, ProviderEvents, type Provider as WebProvider } from '@openfeature/web-sdk';
import { EventSource } from 'eventsource';
import { listen } from '#test/support/sse.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { ofrepFault } from './ofrep-shapes.ts';

const platform = usePlatform(test, { shared: true });

const flags = [
  { key: 'static', value: true },
  { key: 'off', value: true, is_enabled: false },
  {
    key: 'plan',
    flag_type: 'string',
    value: 'basic',
    default_value: 'none',
    targeting_rules: [{ attribute: 'plan', operator: 'eq', values: ['pro'], value: 'best' }],
  },
  { key: 'empty', flag_type: 'string', value: 'x', targeting_rules: [{ attribute: 'no', operator: 'exists' }] },
  { key: 'limit', flag_type: 'number', value: 1.5, targeting_rules: [{ rollout: { percent: 50 }, value: 7 }] },
  { key: 'theme', flag_type: 'json', value: { color: 'red' } },
  { key: 'needs', prerequisites: [{ key: 'off', value: true }] },
];

const scene = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const manage = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  const imported = await manage('PUT', '/flags/import', { flags });
  if (imported.status !== 200) throw new Error(imported.text);
  const url = `/p/${project.ref}/ofrep/v1/evaluate/flags`;
  const ask = (path: string, body: unknown, headers: Record<string, string> = {}, key = project.publishableKey) =>
    client.call('POST', `${url}${path}`, { key, body, headers });
  return { client, base, user, project, manage, ask, url, root: `${base}/p/${project.ref}` };
};

test('one flag is answered as the protocol says, by keys of both kinds', async (t) => {
  const { ask, project } = await scene();
  const expected: Record<string, object> = {
    static: { key: 'static', value: true, reason: 'STATIC', variant: 'on' },
    off: { key: 'off', reason: 'DISABLED' },
    plan: { key: 'plan', value: 'none', reason: 'UNKNOWN', variant: 'default', metadata: { reason: 'DEFAULT' } },
    empty: { key: 'empty', reason: 'UNKNOWN', variant: 'default', metadata: { reason: 'DEFAULT' } },
    theme: { key: 'theme', value: { color: 'red' }, reason: 'STATIC', variant: 'value' },
    needs: {
      key: 'needs',
      value: false,
      reason: 'UNKNOWN',
      variant: 'off',
      metadata: { reason: 'PREREQUISITE_FAILED' },
    },
  };
  for (const [key, body] of Object.entries(expected)) {
    for (const credential of [project.publishableKey, project.key]) {
      const answer = await ask(`/${key}`, { context: { targetingKey: 'u' } }, {}, credential);
      t.is(answer.status, 200, answer.text);
      t.deepEqual(answer.body, body);
      t.is(ofrepFault('single 200', answer.body), null);
    }
  }
  const pro = await ask('/plan', { context: { targetingKey: 'u', plan: 'pro' } });
  t.like(pro.body, { value: 'best', reason: 'TARGETING_MATCH', variant: 'rule-0' });
});

test('what is wrong with a request is said in the protocol’s form', async (t) => {
  const { ask, client, url, project } = await scene();
  const unknown = await ask('/nothing', { context: {} });
  t.is(unknown.status, 404);
  t.is(ofrepFault('single 404', unknown.body), null, unknown.text);
  for (const body of [{ context: [] }, { context: 'x' }, { context: { targetingKey: 1 } }, [], 'text']) {
    const answer = await ask('/static', body);
    t.is(answer.status, 400, JSON.stringify(body));
    t.is(ofrepFault('single 400', answer.body), null, answer.text);
    const all = await ask('', body);
    t.is(all.status, 400);
    t.is(ofrepFault('bulk 400', all.body), null, all.text);
  }
  const broken = await client.call('POST', `${url}/static`, { key: project.publishableKey, raw: '{"context":' });
  t.like(broken.body, { key: 'static', errorCode: 'PARSE_ERROR' });
  t.is((await client.call('POST', `${url}/static`, { body: {} })).status, 401);
  t.is((await ask('?environment=nowhere', { context: {} })).status, 404);
  const large = await ask('/static', { context: { targetingKey: 'u', text: 'x'.repeat(1_000_000) } });
  t.is(large.status, 200, 'a context of a megabyte');
  t.is((await ask('/static', { context: { text: 'x'.repeat(1_100_000) } })).status, 413);
  const names = await client.call('POST', `${url}/static`, {
    key: project.publishableKey,
    raw: '{"context":{"__proto__":{"a":1},"constructor":"x","n":1e400,"big":9007199254740993}}',
  });
  t.is(names.status, 200);
});

test('all flags come with a tag over flags and context, and 304 while both are the same', async (t) => {
  const { ask, manage } = await scene();
  const context = { targetingKey: 'u', plan: 'free' };
  const first = await ask('', { context });
  t.is(first.status, 200, first.text);
  t.is(ofrepFault('bulk 200', first.body), null);
  t.is(first.body.flags.length, flags.length);
  t.like(first.body.metadata, { environment: 'production' });
  const etag = first.headers.get('etag') ?? '';
  const tagged = { 'if-none-match': etag };
  const same = await ask('', { context }, tagged);
  t.is(same.status, 304);
  t.is(same.text, '');
  t.is((await ask('', { context: { ...context, plan: 'pro' } }, tagged)).status, 200);
  await manage('PATCH', '/flags/plan', { default_value: 'some' });
  const changed = await ask('', { context }, tagged);
  t.is(changed.status, 200);
  t.not(changed.headers.get('etag'), etag);
  await manage('POST', '/flags', { key: 'elsewhere', environment: 'staging' });
  t.is((await ask('', { context }, { 'if-none-match': changed.headers.get('etag') ?? '' })).status, 304);
  t.deepEqual(
    (await ask('?environment=staging', { context })).body.flags.map(({ key }: { key: string }) => key),
    ['elsewhere'],
  );
});

test('an answer for all flags is of before a change of them all, or of after it', async (t) => {
  const { ask, manage } = await scene();
  // The rules take an answer several turns of the event loop.
  const targeting = Array.from({ length: 20 }, (_, n) => ({ attribute: 'a', operator: 'contains', values: [`${n}.`] }));
  const file = (value: string) => ({
    flags: Array.from({ length: 1000 }, (_, n) => ({
      key: `flag-${n}`,
      flag_type: 'string',
      value,
      default_value: value,
      targeting_rules: targeting,
    })),
  });
  t.is((await manage('PUT', '/flags/import', file('x'))).status, 200);
  const context = { a: 'x'.repeat(4000) };
  const seen = new Map<string, string>();
  const readOnce = async (): Promise<void> => {
    const { body, headers } = await ask('', { context });
    const values = [...new Set(body.flags.map(({ value }: { value: string }) => value))];
    t.is(values.length, 1, `${values.join()} in one answer`);
    const etag = headers.get('etag') ?? '';
    t.is(seen.get(etag) ?? values[0], values[0], 'a tag stands for one answer');
    seen.set(etag, String(values[0]));
  };
  await readOnce();
  const changing = manage('PUT', '/flags/import', file('y'));
  while (![...seen.values()].includes('y')) await Promise.all([readOnce(), readOnce(), readOnce()]);
  t.is((await changing).status, 200);
  t.deepEqual([...seen.values()], ['x', 'y']);
});

test('a flag of a thousand rules is served, and no rule more is taken', async (t) => {
  const { ask, manage } = await scene();
  const rules = Array.from({ length: 1000 }, (_, n) => ({ attribute: 'n', operator: 'eq', values: [n], value: n }));
  const made = await manage('POST', '/flags', { key: 'many', flag_type: 'number', value: -1, targeting_rules: rules });
  t.is(made.status, 201, made.text.slice(0, 300));
  t.like((await ask('/many', { context: { n: 999 } })).body, { value: 999, variant: 'rule-999' });
  t.like((await ask('/many', { context: { n: 1000 } })).body, { reason: 'UNKNOWN' });
  const all = (await ask('', { context: { n: 500 } })).body.flags;
  t.is(all.find(({ key }: { key: string }) => key === 'many').value, 500);
  const { body } = await manage('POST', '/flags/many/evaluate', { context: { n: 999 }, explain: true });
  t.is(body.matched_rule, 999);
  t.is((await manage('PATCH', '/flags/many', { targeting_rules: [...rules, rules[0]] })).status, 400);
});

test('numbers beyond what JavaScript holds, in a request, match no rule by accident', async (t) => {
  const { client, url, project, manage } = await scene();
  const big = { attribute: 'n', operator: 'eq', values: [9_007_199_254_740_991], value: 'equal' };
  const more = { attribute: 'n', operator: 'gt', values: [9_007_199_254_740_991], value: 'more' };
  const flag = { key: 'big', flag_type: 'string', value: 'x', default_value: 'none', targeting_rules: [big, more] };
  t.is((await manage('POST', '/flags', flag)).status, 201);
  const valueOf = async (n: string) =>
    (await client.call('POST', `${url}/big`, { key: project.publishableKey, raw: `{"context":{"n":${n}}}` })).body
      .value;
  t.is(await valueOf('9007199254740991'), 'equal');
  t.is(await valueOf('9007199254740993'), 'more');
  t.is(await valueOf('1e400'), 'none');
  t.is(await valueOf('"NaN"'), 'none');
  t.is(await valueOf('NaN'), undefined);
});

test('the claims of a user’s token are context, unless the request says otherwise', async (t) => {
  const { client, root, manage, url, project } = await scene();
  const signedUp = await client.call('POST', `${new URL(root).pathname}/auth/v1/signup`, {
    key: project.publishableKey,
    body: { email: `u${Date.now()}@example.com`, password: 'correct horse battery' },
  });
  const token: string = signedUp.body.access_token ?? '';
  t.not(token, '', signedUp.text);
  const subject: string = signedUp.body.user.id;
  await manage('PATCH', '/flags/plan', {
    targeting_rules: [{ attribute: 'targetingKey', operator: 'eq', values: [subject], value: 'mine' }],
  });
  const ask = (context: object, key: string | undefined) =>
    client.call('POST', `${url}/plan`, { key, token, body: { context } });
  t.like((await ask({}, project.publishableKey)).body, { value: 'mine' });
  t.like((await ask({}, undefined)).body, { value: 'mine' });
  t.like((await ask({ targetingKey: 'other' }, undefined)).body, { value: 'none' });
});

test('a stream says that flags were changed, and one who missed it is told at once', async (t) => {
  const { ask, manage, base } = await scene();
  const { url } = (await ask('', { context: {} })).body.eventStreams[0];
  t.true(url.startsWith(base));
  const stream = await listen(url, '');
  t.is(stream.status, 200);
  t.is(stream.headers.get('access-control-allow-origin'), null);
  await manage('POST', '/flags/static/toggle');
  const event = await until(() => stream.events[0]);
  t.like(event.data, { type: 'refetchEvaluation' });
  t.is(ofrepFault('event', event.data), null);
  stream.close();
  const late = await listen(url, '', { 'last-event-id': '1' });
  t.truthy(await until(() => late.events[0]));
  late.close();
  t.is((await fetch(`${url.slice(0, -3)}abc`)).status, 401);
  t.is((await fetch(url.replace('.production.', '.staging.'))).status, 401);
  const fromPage = await fetch(url, { headers: { origin: 'https://app.example.com' } });
  t.is(fromPage.headers.get('access-control-allow-origin'), '*');
  await fromPage.body?.cancel();
});

test.serial('the server SDK of OpenFeature works with its own provider', async (t) => {
  const { root, project } = await scene();
  const provider = new OFREPProvider({ baseUrl: root, headers: [['apikey', project.key]] });
  await OpenFeature.setProviderAndWait('flags', provider);
  const client = OpenFeature.getClient('flags');
  t.true(await client.getBooleanValue('static', false));
  t.true(await client.getBooleanValue('off', true), 'a disabled flag leaves the default to the code');
  t.is(await client.getStringValue('plan', 'd', { targetingKey: 'u', plan: 'pro' }), 'best');
  t.deepEqual(await client.getObjectValue('theme', {}), { color: 'red' });
  t.like(await client.getStringDetails('nothing', 'd'), { value: 'd', errorCode: 'FLAG_NOT_FOUND' });
  await OpenFeature.clearProviders();
});

/** An EventSource that says when it is connected, where Node has none. */
const observedEventSource = () => {
  const opened = Promise.withResolvers<void>();
  class Observed extends EventSource {
    constructor(url: string | URL) {
      super(url);
      this.addEventListener('open', () => opened.resolve());
    }
  }
  return { Observed, opened: opened.promise };
};

test.serial('the web SDK of OpenFeature works with its own provider, and hears of changes', async (t) => {
  const { root, project, manage } = await scene();
  const { Observed, opened } = observedEventSource();
  Object.assign(globalThis, { EventSource: Observed });
  t.teardown(() => Reflect.deleteProperty(globalThis, 'EventSource'));
  const provider = new OFREPWebProvider({
    baseUrl: root,
    pollInterval: 0,
    headers: [['apikey', project.publishableKey]],
  });
  await WebOpenFeature.setContext({ targetingKey: 'u', plan: 'pro' });
  // Its types were made without exactOptionalPropertyTypes.
  await WebOpenFeature.setProviderAndWait('web-flags', provider as unknown as WebProvider);
  const client = WebOpenFeature.getClient('web-flags');
  t.true(client.getBooleanValue('static', false));
  t.is(client.getStringValue('plan', 'd'), 'best');
  const changed = Promise.withResolvers<void>();
  client.addHandler(ProviderEvents.ConfigurationChanged, () => changed.resolve());
  await opened;
  await manage('PATCH', '/flags/plan', {
    targeting_rules: [{ attribute: 'plan', operator: 'eq', values: ['pro'], value: 'better' }],
  });
  await changed.promise;
  t.is(client.getStringValue('plan', 'd'), 'better');
  await WebOpenFeature.clearProviders();
});
