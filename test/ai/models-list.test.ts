import test from 'ava';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';
import { addKey, aiScene } from './gateway-scene.ts';

const platform = usePlatform(test, { shared: true });

test('the models of configured providers are listed for a viewer, with those that could not be asked', async (t) => {
  const scene = await aiScene(platform());
  t.deepEqual((await scene.ask('GET', '/models')).body, { models: [] });
  const upstream = await aiUpstreamFor(t);
  await addKey(scene, 'openai', upstream.openai);
  await addKey(scene, 'google', upstream.google, 'wrong');
  const { status, body, text } = await scene.ask('GET', '/models');
  t.is(status, 200, text);
  t.is(body.models.find((one: { id: string }) => one.id === 'gpt-4o-mini').type, 'chat');
  t.true(body.models.every((one: { provider: string }) => one.provider === 'openai'));
  t.deepEqual(
    body.failed.map((one: { provider: string }) => one.provider),
    ['google'],
  );
});
