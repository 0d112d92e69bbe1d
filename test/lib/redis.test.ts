import test, { type ExecutionContext } from 'ava';
import type { Redis } from 'ioredis';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog } from '#test/support/platform.ts';
import { type TcpProxy, startProxyTo } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';

interface Scene {
  readonly proxy: TcpProxy;
  readonly redis: Redis;
  readonly logged: () => string;
}

const scene = async (t: ExecutionContext, open: typeof openRequestRedis, up = true): Promise<Scene> => {
  const { proxy, url } = await startProxyTo(testEnv('REDIS_URL'));
  if (!up) await proxy.refuse();
  const { log, text } = memoryLog();
  const redis = open(url, log);
  t.teardown(async () => {
    redis.disconnect();
    await proxy.close();
  });
  if (up) await until(() => redis.status === 'ready');
  return { proxy, redis, logged: text };
};

test('for a request, a command fails while Redis is gone and works again when it is back', async (t) => {
  const { proxy, redis, logged } = await scene(t, openRequestRedis);
  t.is(await redis.ping(), 'PONG');
  await proxy.refuse();
  await t.throwsAsync(redis.ping());
  await until(() => redis.status !== 'ready');
  await t.throwsAsync(redis.ping(), { message: /Stream isn't writeable/ });
  await until(() => logged().includes('Redis cannot be reached'));
  await proxy.restore();
  await until(() => redis.status === 'ready');
  t.is(await redis.ping(), 'PONG');
  // Told once, however often connecting failed.
  t.is(logged().match(/Redis cannot be reached/g)?.length, 1);
  t.is(logged().match(/Redis is back/g)?.length, 1);
});

test('for a request, a command fails when Redis hangs', async (t) => {
  const { proxy, redis } = await scene(t, openRequestRedis);
  proxy.hang();
  await t.throwsAsync(redis.ping(), { message: 'Command timed out' });
  await proxy.restore();
  t.is(await redis.ping(), 'PONG');
});

test('for a worker, a command waits until Redis is back', async (t) => {
  const { proxy, redis } = await scene(t, openWorkerRedis);
  await proxy.refuse();
  await until(() => redis.status !== 'ready');
  const answer = redis.ping();
  await proxy.restore();
  t.is(await answer, 'PONG');
});

test('a Redis that is not there at the start is found later', async (t) => {
  const { proxy, redis } = await scene(t, openRequestRedis, false);
  await t.throwsAsync(redis.ping());
  await proxy.restore();
  await until(() => redis.status === 'ready');
  t.is(await redis.ping(), 'PONG');
});
