import test from 'ava';
import { Redis } from 'ioredis';
import { networkOf } from '#api/address.ts';
import { type RateLimiter, createRateLimiter } from '#api/rate-limit.ts';
import { uniqueName } from '#test/support/client.ts';
import { testEnv } from '#test/support/env.ts';

const rules = {
  dashboard: { limit: 100, windowSeconds: 60 },
  'sign-in': { limit: 3, windowSeconds: 300 },
  refresh: { limit: 5, windowSeconds: 60 },
  'flags-free': { limit: 6, windowSeconds: 60 },
  'flags-pro': { limit: 6, windowSeconds: 60 },
  'ai-free': { limit: 6, windowSeconds: 60 },
  'ai-pro': { limit: 60, windowSeconds: 60 },
  'data-free': { limit: 6, windowSeconds: 60 },
  'data-pro': { limit: 60, windowSeconds: 60 },
  hooks: { limit: 60, windowSeconds: 60 },
  oauth: { limit: 60, windowSeconds: 60 },
  files: { limit: 60, windowSeconds: 60 },
  'public-address': { limit: 60, windowSeconds: 60 },
  'public-free': { limit: 60, windowSeconds: 60 },
  'public-pro': { limit: 60, windowSeconds: 60 },
} as const;

const alone = (now: () => number): RateLimiter => createRateLimiter({ redis: null, prefix: 'alone', rules, now });

test('a window begins anew by the clock', (t) => {
  let now = 300_000 * 1000;
  const limiter = alone(() => now);
  const take = () => limiter.take('sign-in', 'a');
  t.deepEqual(
    [take(), take(), take(), take()].map(({ allowed, remaining }) => [allowed, remaining]),
    [
      [true, 2],
      [true, 1],
      [true, 0],
      [false, 0],
    ],
  );
  now += 299_999;
  t.false(take().allowed);
  t.is(take().resetSeconds, 1);
  now += 1;
  t.true(take().allowed);
  t.is(take().resetSeconds, 300);
});

test('classes and subjects are counted apart', (t) => {
  const limiter = alone(() => 0);
  for (let i = 0; i < 4; i += 1) limiter.take('sign-in', 'a');
  t.false(limiter.take('sign-in', 'a').allowed);
  t.true(limiter.take('sign-in', 'b').allowed);
  t.true(limiter.take('refresh', 'a').allowed);
});

test('a flood of callers does not fill the memory: the late ones share a counter', (t) => {
  const limiter = alone(() => 0);
  t.is(limiter.take('dashboard', 'early').remaining, 99);
  for (let i = 0; i < 60_000; i += 1) limiter.take('sign-in', `caller ${i}`);
  t.is(limiter.take('sign-in', 'late').remaining, 0);
  t.false(limiter.take('sign-in', 'later').allowed);
  t.is(limiter.take('dashboard', 'early').remaining, 98);
  t.true(limiter.take('sign-in', 'caller 1').allowed);
});

test('two limiters on one Redis add up, and each goes on alone without it', async (t) => {
  const redis = new Redis(testEnv('REDIS_URL'));
  const prefix = uniqueName('test-rate');
  const [one, two] = [0, 1].map(() => createRateLimiter({ redis, prefix, rules, now: () => 600_000 }));
  if (!one || !two) throw new Error('two were made');
  for (let i = 0; i < 90; i += 1) one.take('dashboard', 'u');
  let verdict = two.take('dashboard', 'u');
  for (; verdict.allowed; verdict = two.take('dashboard', 'u'))
    await new Promise((resolve) => setTimeout(resolve, 100));
  const [key] = await redis.keys(`${prefix}*`);
  t.true(Number(await redis.get(key ?? '')) <= 110);
  t.true((await redis.ttl(key ?? '')) > 0);
  redis.disconnect();
  t.true(one.take('dashboard', 'another').allowed);
  for (const limiter of [one, two]) limiter.close();
});

test('one line cannot hide behind its many IPv6 addresses', (t) => {
  const cases: Record<string, string> = {
    '203.0.113.7': '203.0.113.7',
    '::ffff:203.0.113.7': '203.0.113.7',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
    '2001:0DB8:0001:0002::1': '2001:db8:1:2::/64',
    '2001:db8::1': '2001:db8:0:0::/64',
    '::1': '0:0:0:0::/64',
    '::': '0:0:0:0::/64',
    'fe80::1:2:3:4': 'fe80:0:0:0::/64',
    '': '',
  };
  for (const [address, network] of Object.entries(cases)) t.is(networkOf(address), network, address);
});
