import { randomBytes } from 'node:crypto';
import test from 'ava';
import { createAnswerCache } from '#domain/assistant/assistant.ts';
import { openRequestRedis } from '#lib/redis.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog } from '#test/support/platform.ts';

const ring = openKeyRing(`1:${randomBytes(32).toString('base64')}`);
const projectOf = (id: string) => ({ id, data_key: ring.newDataKey(id) });
const prefix = `test-${randomBytes(6).toString('hex')}`;

const cacheAt = (url: string) => {
  const { log } = memoryLog();
  const redis = openRequestRedis(url, log);
  const cache = createAnswerCache({ redis, prefix, sealer: ({ id, data_key }) => ring.sealerFor(id, data_key), log });
  return { cache, redis };
};

test('an answer is found by its project and question alone, and a long one is not kept', async (t) => {
  const { cache, redis } = cacheAt(testEnv('REDIS_URL'));
  t.teardown(() => redis.disconnect());
  await new Promise((resolve) => void redis.once('ready', resolve));
  const [one, two] = [projectOf('one'), projectOf('two')];
  await cache.store(one, 'question', 'An answer.');
  t.is(await cache.find(one, 'question'), 'An answer.');
  t.is(await cache.find(one, 'another'), null);
  t.is(await cache.find(two, 'question'), null);
  await cache.store(one, 'long', 'ü'.repeat(131_073));
  t.is(await cache.find(one, 'long'), null);
  await redis.copy(`${prefix}:assistant:one:question`, `${prefix}:assistant:two:question`);
  t.is(await cache.find(two, 'question'), null);
  await redis.unlink(`${prefix}:assistant:one:question`, `${prefix}:assistant:two:question`);
});

test('without Redis nothing is found, nothing is kept, and nothing fails', async (t) => {
  const { cache, redis } = cacheAt('redis://127.0.0.1:1');
  t.teardown(() => redis.disconnect());
  await t.notThrowsAsync(cache.store(projectOf('one'), 'question', 'An answer.'));
  t.is(await cache.find(projectOf('one'), 'question'), null);
});
