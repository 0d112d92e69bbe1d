import test from 'ava';
import { answersWithin } from '#lib/answers-within.ts';
import { openControlDb } from '#lib/control-db.ts';
import { toServiceError } from '#lib/errors.ts';
import { giveUpAfter } from '#lib/lag-aware-timer.ts';
import { loopLagged, watchLoop } from '#lib/loop-lag.ts';
import { openRequestRedis } from '#lib/redis.ts';
import { createEmptyDatabase } from '#test/support/databases.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog } from '#test/support/platform.ts';
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

/** How many times its time passed before it gave up. */
const turnsUntilGivenUp = async (lagged: () => boolean): Promise<number> => {
  let times = 0;
  await new Promise<void>((resolve) => {
    giveUpAfter(1, resolve, () => {
      times += 1;
      return lagged();
    });
  });
  return times;
};

test('whoever waits gives up once: at the first time-out, at the third while this process lags, and not when answered', async (t) => {
  t.is(await turnsUntilGivenUp(no), 1);
  t.is(await turnsUntilGivenUp(yes), 2);
  const cancelled = giveUpAfter(1, () => t.fail('it was cancelled'));
  cancelled();
  await turnsUntilGivenUp(no);
});

test('what Redis and Postgres have answered while this process stood still is read', async (t) => {
  const { log } = memoryLog();
  const redis = openRequestRedis(testEnv('REDIS_URL'), log);
  const database = await createEmptyDatabase();
  const db = openControlDb({ url: database.url, connections: 1, log });
  t.teardown(async () => {
    redis.disconnect();
    await db.close();
    await database.drop();
  });
  await until(() => redis.status === 'ready');
  watchLoop();
  const answers = Promise.all([redis.ping(), db.query('select 1 as one')]);
  // Longer than a command of Redis and a new connection to Postgres may take.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);
  t.deepEqual(await answers, ['PONG', [{ one: 1 }]]);
});

test('an event loop that stands still is noticed while it does, and afterwards', async (t) => {
  watchLoop();
  const until400 = performance.now() + 400;
  while (performance.now() < until400);
  t.true(loopLagged());
  await until(() => loopLagged());
  t.true(loopLagged());
});
