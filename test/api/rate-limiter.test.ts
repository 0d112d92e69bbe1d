import test from 'ava';
import { type RateName, createRateLimiter } from '#api/rate-limit.ts';

const rule = { limit: 2, windowSeconds: 3600 };
const rules = new Proxy({} as Record<RateName, typeof rule>, { get: () => rule });

const open = () => createRateLimiter({ redis: null, prefix: 'test', rules, now: () => 0 });

test('each caller has a budget of its own', (t) => {
  const limiter = open();
  const take = (subject: string): boolean => limiter.take('sign-in', subject).allowed;
  t.deepEqual([take('a'), take('a'), take('a'), take('b')], [true, true, false, true]);
  t.true(limiter.take('public-address', 'a').allowed, 'and one for each kind of request');
});

test('however many callers there were, a new one is not counted with others', (t) => {
  const limiter = open();
  for (let n = 0; n < 120_000; n += 1) limiter.take('sign-in', `2001:db8:0:${n.toString(16)}::/64`);
  const take = (): boolean => limiter.take('sign-in', '192.0.2.1').allowed;
  t.deepEqual([take(), take(), take()], [true, true, false]);
});
