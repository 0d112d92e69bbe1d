import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import test, { type ExecutionContext } from 'ava';
import { createInFlight } from '#domain/ai/gateway/in-flight.ts';
import { ServiceError } from '#lib/errors.ts';
import { testEnv } from '#test/support/env.ts';
import { until } from '#test/support/until.ts';

const limits = { free: 2, pro: 3, enterprise: 4 };

const projectOf = (plan: 'free' | 'pro' | 'enterprise' = 'free') => ({ id: crypto.randomUUID(), plan });

const redisFor = (t: ExecutionContext): Redis => {
  const redis = new Redis(testEnv('REDIS_URL'));
  t.teardown(() => redis.disconnect());
  return redis;
};

/** Processes that share a Redis. */
const processes = (t: ExecutionContext, count: number) => {
  const prefix = `test-${randomBytes(6).toString('hex')}`;
  return Array.from({ length: count }, () => {
    const redis = redisFor(t);
    const inFlight = createInFlight({ redis, prefix, limits });
    t.teardown(() => inFlight.close());
    return { redis, inFlight, prefix };
  });
};

const isFull = (take: () => () => void): boolean => {
  try {
    take()();
    return false;
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'too_many_calls') return true;
    throw error;
  }
};

test('each plan has its own limit, exact within a process, for each project', (t) => {
  const inFlight = createInFlight({ redis: null, prefix: 'x', limits });
  for (const plan of ['free', 'pro', 'enterprise'] as const) {
    const project = projectOf(plan);
    const releases = Array.from({ length: limits[plan] }, () => inFlight.take(project));
    t.true(isFull(() => inFlight.take(project)));
    t.false(isFull(() => inFlight.take(projectOf(plan))));
    releases[0]?.();
    // Once is enough.
    releases[0]?.();
    const again = inFlight.take(project);
    t.true(isFull(() => inFlight.take(project)));
    for (const release of [...releases, again]) release();
  }
});

test('by default the plans have 20, 100 and 400', (t) => {
  const inFlight = createInFlight({ redis: null, prefix: 'x' });
  for (const [plan, limit] of [
    ['free', 20],
    ['pro', 100],
    ['enterprise', 400],
  ] as const) {
    const project = projectOf(plan);
    for (let n = 0; n < limit; n += 1) inFlight.take(project);
    t.throws(() => inFlight.take(project), { message: new RegExp(String(limit)) });
  }
});

test('what another process has under way counts, until it has ended', async (t) => {
  const [one, other] = processes(t, 2);
  if (one === undefined || other === undefined) throw new Error('there are two');
  const project = projectOf();
  const ends = [one.inFlight.take(project)];
  other.inFlight.take(project);
  await until(() => isFull(() => other.inFlight.take(project)));
  for (const end of ends) end();
  await until(() => !isFull(() => other.inFlight.take(project)));
  t.pass();
});

test('a process that dies holds up nobody for long', async (t) => {
  const [dead, other] = processes(t, 2);
  if (dead === undefined || other === undefined) throw new Error('there are two');
  const project = projectOf();
  dead.inFlight.take(project);
  other.inFlight.take(project);
  await until(() => isFull(() => other.inFlight.take(project)));
  dead.redis.disconnect();
  await until(() => !isFull(() => other.inFlight.take(project)));
  t.pass();
});

test('while Redis is away each process limits by itself', (t) => {
  const [alone] = processes(t, 1);
  if (alone === undefined) throw new Error('there is one');
  alone.redis.disconnect();
  const project = projectOf();
  alone.inFlight.take(project);
  alone.inFlight.take(project);
  t.true(isFull(() => alone.inFlight.take(project)));
});

test('nothing is left in Redis when nothing is under way', async (t) => {
  const [one] = processes(t, 1);
  if (one === undefined) throw new Error('there is one');
  const keys = (): Promise<string[]> => one.redis.keys(`${one.prefix}:*`);
  const end = one.inFlight.take(projectOf());
  await until(async () => (await keys()).length === 1);
  end();
  await until(async () => (await keys()).length === 0);
  t.pass();
});
