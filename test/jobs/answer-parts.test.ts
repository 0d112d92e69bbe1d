import { randomBytes } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { newId } from '#lib/ids.ts';
import { createAnswerWriters } from '#queues/answer-streams.ts';
import { openSubscriber } from '#queues/signals.ts';
import { testEnv } from '#test/support/env.ts';

const openScene = async (t: ExecutionContext) => {
  const prefix = `test-answers-${randomBytes(6).toString('hex')}`;
  const [redis, listening] = [new Redis(testEnv('REDIS_URL')), new Redis(testEnv('REDIS_URL'))];
  const subscriber = openSubscriber(listening, prefix);
  const stream = `${prefix}:stream`;
  t.teardown(async () => {
    subscriber.close();
    await redis.unlink(stream);
    redis.disconnect();
  });
  const writer = await createAnswerWriters(redis, subscriber, prefix).open(newId(), stream);
  t.teardown(writer.close);
  await writer.start({ status: 200, headers: [] });
  const parts = async () => {
    const entries = await redis.xrangeBuffer(stream, '-', '+');
    return entries.map(([, [, header, , data]]) => ({
      ...(JSON.parse(String(header)) as { readonly kind: string; readonly number: number }),
      text: String(data),
    }));
  };
  return { writer, parts };
};

test('many short chunks go to the caller in few parts, in order', async (t) => {
  const { writer, parts } = await openScene(t);
  const chunks = Array.from({ length: 5000 }, (_, i) => `${i} `);
  await Promise.all(chunks.map((chunk) => writer.write(Buffer.from(chunk))));
  await writer.end();
  const sent = await parts();
  t.true(sent.length < 100, `${sent.length} parts`);
  t.deepEqual(
    sent.map(({ number }) => number),
    sent.map((_, place) => place),
  );
  t.is(sent.map(({ text }) => text).join(''), chunks.join(''));
  t.is(sent.at(-1)?.kind, 'end');
});

test('a chunk goes at once when none is under way, and long ones wait for none', async (t) => {
  const { writer, parts } = await openScene(t);
  await writer.write(Buffer.from('first'));
  t.deepEqual(
    (await parts()).map(({ text }) => text),
    ['', 'first'],
  );
  const long = 'x'.repeat(20_000);
  await Promise.all([long, 'a', '', 'b', long].map((chunk) => writer.write(Buffer.from(chunk))));
  await writer.end();
  const texts = (await parts()).map(({ text }) => text);
  t.deepEqual(texts, ['', 'first', long, `ab${long}`, '']);
});
