import test from 'ava';
import { answersWithin } from '#lib/answers-within.ts';
import { toServiceError } from '#lib/errors.ts';
import { loopLagged, watchLoop } from '#lib/loop-lag.ts';
import { until } from '#test/support/until.ts';

const [yes, no] = [() => true, () => false];
const timedOut = new Error('Command timed out');

test('a time-out while this process lags is overload, and without a lag the other side is down', (t) => {
  t.is(toServiceError(timedOut, yes).code, 'overloaded');
  t.is(toServiceError(timedOut, no).code, 'dependency_unavailable');
  t.is(toServiceError(timedOut, yes).status, 503);
});

test('a refused connection is a server that is down, however busy this process is', (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  t.is(toServiceError(refused, yes).code, 'dependency_unavailable');
});

test('a statement that its time-out stopped, and a pool without a free connection, are overload', (t) => {
  const stopped = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
  t.is(toServiceError(stopped, no).code, 'overloaded');
  t.is(toServiceError(new Error('timeout exceeded when trying to connect'), no).code, 'overloaded');
});

test('a check that is late because this process lags is waited for, one that is late by itself is not', async (t) => {
  const check = Promise.withResolvers<void>();
  const late = answersWithin(check.promise, 1, () => {
    check.resolve();
    return true;
  });
  t.true(await late);
  t.false(await answersWithin(Promise.withResolvers<void>().promise, 1, no));
  t.false(await answersWithin(Promise.withResolvers<void>().promise, 1, yes), 'not for ever');
  t.false(await answersWithin(Promise.reject(new Error('down')), 1000, yes));
});

test('an event loop that stands still is noticed while it does, and afterwards', async (t) => {
  watchLoop();
  const until400 = performance.now() + 400;
  while (performance.now() < until400);
  t.true(loopLagged());
  await until(() => loopLagged());
  t.true(loopLagged());
});
