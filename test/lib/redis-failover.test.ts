import test, { type ExecutionContext } from 'ava';
import type { Redis } from 'ioredis';
import { isDependencyFailure } from '#lib/errors.ts';
import { checkRedis, openRequestRedis, openWorkerRedis, refuseEviction, requireNoEviction } from '#lib/redis.ts';
import { type FakeInfo, startFakeRedis } from '#test/support/fake-redis.ts';
import { memoryLog } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const connect = async (
  t: ExecutionContext,
  infoOf: (connection: number) => FakeInfo,
  open: typeof openRequestRedis = openRequestRedis,
): Promise<{ redis: Redis; connections: () => number }> => {
  const server = await startFakeRedis(infoOf);
  const redis = open(server.url, memoryLog().log);
  t.teardown(async () => {
    redis.disconnect();
    await server.close();
  });
  await until(() => redis.status === 'ready');
  return { redis, connections: server.connections };
};

/** The first connection is to a master that was demoted; who connects again reaches the new one. */
const demoted = (connection: number): FakeInfo => ({ role: connection === 1 ? 'slave' : 'master' });

for (const [kind, open] of Object.entries({ request: openRequestRedis, worker: openWorkerRedis })) {
  test(`a ${kind} connection whose server became a replica is made anew and reaches the new master`, async (t) => {
    const { redis, connections } = await connect(t, demoted, open);
    const error = await t.throwsAsync(redis.set('key', 'value'), { message: /READONLY/ });
    t.true(isDependencyFailure(error));
    await until(() => connections() === 2 && redis.status === 'ready');
    t.is(await redis.set('key', 'value'), 'OK');
  });
}

test('readiness asks for the master: a replica that answers is not ready, and is left for the master', async (t) => {
  const { redis, connections } = await connect(t, demoted);
  t.is(await redis.ping(), 'PONG');
  const error = await t.throwsAsync(checkRedis(redis), { message: /replica/ });
  t.true(isDependencyFailure(error));
  await until(() => connections() === 2 && redis.status === 'ready');
  await t.notThrowsAsync(checkRedis(redis));
});

test('a server that evicts keys stops the start and says what to set', async (t) => {
  const { redis } = await connect(t, () => ({ policy: 'allkeys-lru' }));
  const expected = { name: 'ConfigError', message: /maxmemory-policy allkeys-lru.*noeviction/ };
  await t.throwsAsync(refuseEviction(redis), expected);
  await t.throwsAsync(checkRedis(redis), expected);
  const fine = await connect(t, () => ({}));
  await t.notThrowsAsync(refuseEviction(fine.redis));
});

const policyOf = (connection: number): FakeInfo => ({ policy: connection === 1 ? 'noeviction' : 'volatile-lru' });

test('a policy that was changed while the process ran ends its readiness', async (t) => {
  const { redis, connections } = await connect(t, policyOf);
  await requireNoEviction(redis);
  redis.disconnect(true);
  await until(() => connections() === 2 && redis.status === 'ready');
  await t.throwsAsync(checkRedis(redis), { message: /volatile-lru/ });
});

test('a Redis that is away does not keep a process from starting', async (t) => {
  const redis = openRequestRedis('redis://127.0.0.1:1', memoryLog().log);
  t.teardown(() => redis.disconnect());
  await t.notThrowsAsync(refuseEviction(redis));
});
