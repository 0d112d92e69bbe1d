import test from 'ava';
import { createModelLists } from '#domain/ai/gateway/models.ts';
import type { ProviderKey } from '#domain/ai/keys/keys.ts';
import type { ListedModel } from '#domain/ai/providers/dialect.ts';
import { ServiceError } from '#lib/errors.ts';
import { type AloneOptions, chatRequest, gatewayAlone, knownModel } from './gateway-alone.ts';

const unknownOf = async (promise: Promise<unknown>): Promise<ServiceError> => {
  const error: unknown = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof ServiceError) return error;
  throw new Error('it was not refused', { cause: error });
};

const both: AloneOptions = {
  keys: (upstream) => ({ openai: upstream.openai, anthropic: upstream.anthropic }),
  models: [
    knownModel('openai', 'gpt-4o'),
    knownModel('anthropic', 'claude-x'),
    knownModel('groq', 'llama-x'),
    knownModel('openai', 'shared'),
    knownModel('anthropic', 'shared'),
  ],
};

test('a bare name leads to the one configured provider that is known to have it, without asking', async (t) => {
  const { gateway, caller, upstream } = await gatewayAlone(t, both);
  const resolve = (name: string) => gateway.resolve(caller.project, name, 'chat');
  t.deepEqual(await resolve('gpt-4o'), { provider: 'openai', model: 'gpt-4o' });
  t.deepEqual(await resolve('claude-x'), { provider: 'anthropic', model: 'claude-x' });
  t.is(upstream.requests.length, 0);
});

test('a name with its provider goes there, whatever is known of it; the rest may have slashes', async (t) => {
  const { gateway, caller, upstream } = await gatewayAlone(t, both);
  const resolve = (name: string) => gateway.resolve(caller.project, name, 'chat');
  t.deepEqual(await resolve('openai/claude-x'), { provider: 'openai', model: 'claude-x' });
  t.deepEqual(await resolve('openai/meta/llama'), { provider: 'openai', model: 'meta/llama' });
  t.is((await unknownOf(resolve('groq/llama-x'))).code, 'provider_not_configured');
  t.is(upstream.requests.length, 0);
});

test('a name that several have is 400 and says which', async (t) => {
  const { gateway, caller, calls } = await gatewayAlone(t, both);
  const error = await unknownOf(gateway.chat(caller, chatRequest('x', { model: 'shared' })));
  t.is(error.code, 'model_ambiguous');
  t.deepEqual(error.details, { candidates: ['openai/shared', 'anthropic/shared'] });
  t.is(calls.length, 0);
});

test('a server of the project’s own takes any name that no vendor is known for', async (t) => {
  const { gateway, caller } = await gatewayAlone(t, { ...both, keys: ({ openai }) => ({ openai, anthropic: null }) });
  const resolve = (name: string) => gateway.resolve(caller.project, name, 'chat');
  t.deepEqual(await resolve('my-own-model'), { provider: 'openai', model: 'my-own-model' });
  t.deepEqual(await resolve('org/my-own-model'), { provider: 'openai', model: 'org/my-own-model' });
  t.deepEqual(await resolve('claude-x'), { provider: 'anthropic', model: 'claude-x' });
  // Known of a provider that is not configured: a proxy may have it.
  t.deepEqual(await resolve('llama-x'), { provider: 'openai', model: 'llama-x' });
});

test('of two servers of the project’s own the one that lists a name has it; where none does, the provider has to be named', async (t) => {
  const { gateway, caller } = await gatewayAlone(t, both);
  const resolve = (name: string) => gateway.resolve(caller.project, name, 'chat');
  t.deepEqual(await resolve('claude-haiku-4-5'), { provider: 'anthropic', model: 'claude-haiku-4-5' });
  const error = await unknownOf(resolve('my-own-model'));
  t.is(error.code, 'model_not_found');
  t.regex(error.hint ?? '', /openai\/my-own-model, anthropic\/my-own-model/);
});

test('a provider without a model is no name, also where a server takes any', async (t) => {
  const { gateway, caller } = await gatewayAlone(t);
  for (const name of ['', 'openai/', 'anthropic/'])
    t.is((await unknownOf(gateway.resolve(caller.project, name, 'chat'))).code, 'model_not_found');
});

test('a model of a provider that is not configured is 409; one of nobody is 404', async (t) => {
  const { gateway, caller } = await gatewayAlone(t, { ...both, keys: () => ({}) });
  const resolve = (name: string) => gateway.resolve(caller.project, name, 'chat');
  t.is((await unknownOf(resolve('llama-x'))).code, 'provider_not_configured');
  t.is((await unknownOf(resolve('nobody-has-it'))).code, 'model_not_found');
  t.is((await unknownOf(resolve(''))).code, 'model_not_found');
  t.is((await unknownOf(resolve('openai/'))).code, 'model_not_found');
});

test('the models of all configured providers are listed; one that fails is named', async (t) => {
  const { gateway, caller, upstream, setKeys } = await gatewayAlone(t, {
    keys: (server) => ({ openai: server.openai, anthropic: server.anthropic, google: server.google }),
    models: [
      knownModel('openai', 'text-embedding-3-small', { type: 'embedding', dimensions: 1536 }),
      knownModel('openai', 'gpt-4o'),
    ],
  });
  const { models, failed } = await gateway.models(caller.project);
  t.deepEqual(failed, []);
  t.deepEqual(
    models.find(({ id }) => id === 'text-embedding-3-small'),
    {
      id: 'text-embedding-3-small',
      provider: 'openai',
      type: 'embedding',
      context_window: 8192,
      dimensions: 1536,
      price: { input: 1, output: 2 },
    },
  );
  // Both pages of each.
  for (const id of ['claude-sonnet-4-5', 'claude-haiku-4-5', 'gemini-2.5-pro', 'gemini-embedding-001']) {
    t.true(
      models.some((model) => model.id === id),
      id,
    );
  }
  const requested = upstream.requests.length;
  await gateway.models(caller.project);
  t.is(upstream.requests.length, requested);

  setKeys({ openai: upstream.openai, anthropic: upstream.anthropic });
  upstream.answerWith(({ dialect }) => (dialect === 'openai' ? { status: 401 } : undefined));
  const again = await gateway.models(caller.project);
  t.deepEqual(
    again.failed.map(({ provider }) => provider),
    ['openai'],
  );
  t.true(again.models.every(({ provider }) => provider === 'anthropic'));
  upstream.answerWith(() => undefined);
  t.deepEqual((await gateway.models(caller.project)).failed, []);
});

const key = (version = 1): ProviderKey => ({
  id: 'k',
  provider: 'openai',
  version,
  target: { baseUrl: 'x', apiKey: 'y', isVendor: true },
});

const listOf = (id: string): readonly ListedModel[] => [{ id, type: null, contextWindow: null }];

test('a list is asked for once an hour and key, by all who want it at once', async (t) => {
  let [now, requested] = [0, 0];
  const lists = createModelLists(
    () => {
      requested += 1;
      return Promise.resolve(listOf(`m${requested}`));
    },
    () => now,
  );
  await Promise.all([lists.of(key()), lists.of(key()), lists.of(key())]);
  t.is(requested, 1);
  now = 3_599_999;
  await lists.of(key());
  t.is(requested, 1);
  now = 3_600_000;
  t.is((await lists.of(key()))[0]?.id, 'm2');
  await lists.of(key(2));
  t.is(requested, 3);
});

test('a failure is not kept, and a list that is old is better than none', async (t) => {
  let [now, works, requested] = [0, false, 0];
  const lists = createModelLists(
    () => {
      requested += 1;
      return works ? Promise.resolve(listOf('m')) : Promise.reject(new Error('away'));
    },
    () => now,
  );
  await t.throwsAsync(lists.of(key()), { message: 'away' });
  await t.throwsAsync(lists.of(key()), { message: 'away' });
  t.is(requested, 2);
  works = true;
  await lists.of(key());
  works = false;
  now = 9_000_000;
  t.is((await lists.of(key()))[0]?.id, 'm');
  t.is(requested, 4);
});
