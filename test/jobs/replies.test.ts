import { randomBytes } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { newId } from '#lib/ids.ts';
import { openReplies, outcomesIn } from '#queues/replies.ts';
import { testEnv } from '#test/support/env.ts';
import { until } from '#test/support/until.ts';

const openScene = (t: ExecutionContext) => {
  const prefix = `test-replies-${randomBytes(6).toString('hex')}`;
  const [reading, writing] = [new Redis(testEnv('REDIS_URL')), new Redis(testEnv('REDIS_URL'))];
  const replies = openReplies(reading, prefix);
  t.teardown(async () => {
    await replies.close();
    await writing.unlink(replies.stream);
    writing.disconnect();
  });
  const outcomes = outcomesIn(writing, prefix);
  /** Answers what the waiting caller was told. */
  const notify = async (result: string) => {
    const id = newId();
    const { outcome } = replies.wait(id, 10_000);
    await outcomes.notify(id, { status: 'succeeded', result, error: null }, replies.stream);
    return outcome;
  };
  return { replies, writing, notify };
};

test('each caller hears of its own job', async (t) => {
  const { notify } = openScene(t);
  const received = await Promise.all(['1', '2', '3'].map(notify));
  t.deepEqual(
    received.map((outcome) => outcome?.result),
    ['1', '2', '3'],
  );
});

test('replies that were read do not pile up', async (t) => {
  const { notify, replies, writing } = openScene(t);
  const long = JSON.stringify('x'.repeat(30_000));
  for (let i = 0; i < 9; i += 1) t.is((await notify(long))?.result, long);
  // 64 KB is kept at most: two of these, and the one with which it is found to be too much.
  t.truthy(await until(async () => (await writing.xlen(replies.stream)) <= 3));
});
