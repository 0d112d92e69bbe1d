import test from 'ava';
import { pino } from 'pino';
import { openWorkerRedis } from '#lib/redis.ts';
import { openReplies } from '#queues/replies.ts';
import { testEnv } from '#test/support/env.ts';
import { startProxyTo } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';

test('replies can be closed while Redis is away', async (t) => {
  const { proxy, url } = await startProxyTo(testEnv('REDIS_URL'));
  t.teardown(() => proxy.close());
  const redis = openWorkerRedis(url, pino({ level: 'silent' }));
  const replies = openReplies(redis, 'test-close');
  await until(() => redis.status === 'ready');
  await proxy.refuse();
  await until(() => redis.status === 'reconnecting');
  await replies.close();
  t.pass();
});
