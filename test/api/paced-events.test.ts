import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { openPacedEvents } from '#api/streams/paced-events.ts';
import { until } from '#test/support/until.ts';

const big = 'x'.repeat(40_000);

const settled = async (work: Promise<unknown>): Promise<boolean> => {
  let done = false;
  void work.then(() => (done = true));
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  return done;
};

test('writers wait for a reader that is slower, all of them', async (t) => {
  const events = openPacedEvents();
  t.true(await settled(events.send({ small: 1 })));
  const waiting = [events.send(big), events.send(big), events.send(big)];
  t.false(await settled(Promise.race(waiting)));
  events.body.resume();
  t.deepEqual(await Promise.all(waiting), [true, true, true]);
});

test('writers that wait are told when the reader goes', async (t) => {
  const events = openPacedEvents();
  const waiting = [events.send(big), events.send(big)];
  t.false(await settled(Promise.race(waiting)));
  events.body.destroy();
  t.deepEqual(await Promise.all(waiting), [false, false]);
  t.false(await events.send('more'));
});

test('a quiet stream says that it is alive, once until that is read', async (t) => {
  const events = openPacedEvents(1);
  const said: string[] = [];
  events.body.on('data', (chunk) => said.push(String(chunk)));
  await until(() => said.length > 0);
  t.is(said[0], ': keep-alive\n\n');
  events.body.pause();
  await new Promise((resolve) => void setTimeout(resolve, 30));
  t.true(events.body.readableLength <= ': keep-alive\n\n'.length);
  events.body.destroy();
});

test('events end in their order', async (t) => {
  const events = openPacedEvents();
  await events.send({ a: 'line\nline' });
  await events.send({ b: 2 });
  events.end();
  t.false(await events.send({ c: 3 }));
  let text = '';
  for await (const chunk of events.body) text += String(chunk);
  t.is(text, 'data: {"a":"line\\nline"}\n\ndata: {"b":2}\n\n');
});
