import test from 'ava';
import { createShared } from '#test/support/shared-platforms.ts';

const counted = () => {
  const events: string[] = [];
  const start = async (name: string) => {
    events.push(`start ${name}`);
    return { name, stop: async () => void events.push(`stop ${name}`) };
  };
  return { events, start };
};

test('files with the same settings share what runs, and it stops once', async (t) => {
  const { events, start } = counted();
  const shared = createShared<Awaited<ReturnType<typeof start>>>();
  const [a, b, other] = await Promise.all(['a', 'a', 'b'].map((key) => shared.get(key, () => start(key))));
  t.is(a, b);
  t.not(a, other);
  await shared.stop();
  t.deepEqual(events, ['start a', 'start b', 'stop a', 'stop b']);
  await shared.stop();
  t.is(events.length, 4);
});

test('a start that fails is tried again by the next file, and does not keep the others from stopping', async (t) => {
  const { events, start } = counted();
  const shared = createShared<Awaited<ReturnType<typeof start>>>();
  await t.throwsAsync(
    shared.get('a', () => Promise.reject(new Error('no server'))),
    { message: 'no server' },
  );
  await shared.get('a', () => start('a'));
  await t.throwsAsync(shared.get('b', () => Promise.reject(new Error('no server'))));
  await shared.stop();
  t.deepEqual(events, ['start a', 'stop a']);
});
