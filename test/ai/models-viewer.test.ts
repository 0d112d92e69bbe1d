import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { createAiProject } from '#test/support/ai-project.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { saying } from './chat-scene.ts';

const folder = await mkdtemp(path.join(tmpdir(), 'models-viewer-'));
const prices = path.join(folder, 'prices.json');
const given = {
  'of-the-file': { input_usd_per_million: 1.5, output_usd_per_million: 6, context_window: 5000 },
  'embedder-of-the-file': { input_usd_per_million: 0.25, type: 'embedding', dimensions: 12 },
};
await writeFile(prices, JSON.stringify({ openai: given }));
test.after.always('the prices are gone', () => rm(folder, { recursive: true, force: true }));

const platform = usePlatform(test, { settings: { PLINTH_AI_PRICES: prices } });

const listing = (...ids: readonly string[]): string =>
  JSON.stringify({ object: 'list', data: ids.map((id) => ({ id, object: 'model', owned_by: 'them' })) });

test('a viewer is told the models with their prices and context windows, and null where those are not known', async (t) => {
  const { client } = platform();
  const upstream = await aiUpstreamFor(t);
  upstream.answerWith(({ kind }) =>
    kind === 'models' ? { body: listing('of-the-file', 'embedder-of-the-file', 'unheard-of') } : undefined,
  );
  const { project, path: at } = await createAiProject(platform(), upstream, { openai: 'sk-proj-of-the-test-0001' });
  const { token } = await addMember(platform(), project.orgId, 'viewer');
  const { status, body, text } = await client.call('GET', `${at}/ai/models`, { token });
  t.is(status, 200, text);
  const chat = { provider: 'openai', type: 'chat', dimensions: null };
  t.deepEqual(body, {
    models: [
      { ...chat, id: 'of-the-file', context_window: 5000, price: { input: 1.5, output: 6 } },
      {
        id: 'embedder-of-the-file',
        provider: 'openai',
        type: 'embedding',
        context_window: null,
        dimensions: 12,
        price: { input: 0.25, output: 0 },
      },
      { ...chat, id: 'unheard-of', context_window: null, price: null },
    ],
  });
  isError(t, await client.call('POST', `${at}/ai/chat`, { token, body: saying('hello') }), 403, 'forbidden');
});

test('models of vendors come with what the package and their own lists know of them', async (t) => {
  const { client } = platform();
  const upstream = await aiUpstreamFor(t);
  const keys = { openai: 'sk-proj-of-the-test-0001', google: 'AI-of-the-test-0003' };
  const { project, path: at } = await createAiProject(platform(), upstream, keys);
  const { token } = await addMember(platform(), project.orgId, 'viewer');
  const { body } = await client.call('GET', `${at}/ai/models`, { token });
  const named = (id: string) => body.models.find((one: { id: string }) => one.id === id);
  t.is(named('gpt-4o-mini').context_window, 128_000);
  t.deepEqual(named('gpt-4o-mini').price, { input: 0.15, output: 0.6 });
  // Google’s list says itself how long prompts may be.
  t.is(named('gemini-2.5-pro').context_window, 1_048_576);
  t.true(named('gemini-2.5-pro').price.input > 0);
  t.is(body.failed, undefined);
});

test('the list is neither for strangers nor for API keys', async (t) => {
  const { client } = platform();
  const { project, path: at } = await createAiProject(platform(), await aiUpstreamFor(t));
  const stranger = await client.signUp();
  isError(t, await client.call('GET', `${at}/ai/models`, { token: stranger.token }), 404, 'not_found');
  isError(t, await client.call('GET', `${at}/ai/models`, { key: project.key }), 401, 'unauthenticated');
});
