import test from 'ava';
import { pino } from 'pino';
import { openWorkerRedis } from '#lib/redis.ts';
import { openReplies } from '#queues/replies.ts';
import { testEnv } from '#test/support/env.ts';
import { startTcpProxy } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';

test('replies can be closed while Redis is away', async (t) => {
  const url = new URL(testEnv('REDIS_URL'));
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  t.teardown(() => proxy.close());
  url.host = `127.0.0.1:${proxy.port}`;
  const redis = openWorkerRedis(url.href, pino({ level: 'silent' }));
  const replies = openReplies(redis, 'test-close');
  await until(() => redis.status === 'ready');
  await proxy.refuse();
  await until(() => redis.status === 'reconnecting');
  await replies.close();
  t.pass();
});
