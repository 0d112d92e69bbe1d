import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { startFlight } from '#domain/assistant/assistant.ts';

const stays = new AbortController().signal;

const play = () => {
  const end = Promise.withResolvers<void>();
  const says: ((piece: string) => void)[] = [];
  const flight = startFlight((_signal, emit) => {
    says.push(emit);
    return end.promise;
  });
  return { flight, say: (piece: string) => says[0]?.(piece), end };
};

const all = async (pieces: AsyncIterable<string>): Promise<string[]> => {
  const found: string[] = [];
  for await (const piece of pieces) found.push(piece);
  return found;
};

test('who comes late gets what was said so far at once, then what comes', async (t) => {
  const { flight, say, end } = play();
  flight.join(stays);
  say('a');
  say('b');
  await flight.started;
  const late = all(flight.pieces());
  await nextTurn();
  say('c');
  end.resolve();
  t.deepEqual(await late, ['ab', 'c']);
  t.is(await flight.whole, 'abc');
  t.deepEqual(await all(flight.pieces()), ['abc']);
});

test('what breaks off is told behind what was said', async (t) => {
  const { flight, say, end } = play();
  say('a');
  const received: string[] = [];
  const reading = (async () => {
    for await (const piece of flight.pieces()) received.push(piece);
  })();
  await nextTurn();
  end.reject(new Error('broken'));
  await t.throwsAsync(reading, { message: 'broken' });
  await t.throwsAsync(flight.whole, { message: 'broken' });
  t.deepEqual(received, ['a']);
  await t.notThrowsAsync(flight.started);
});

test('what fails before the first word does not begin', async (t) => {
  const { flight, end } = play();
  end.reject(new Error('refused'));
  await t.throwsAsync(flight.started, { message: 'refused' });
  await t.throwsAsync(all(flight.pieces()), { message: 'refused' });
});

test('it is stopped when the last who waits has left, not before, and not once it has ended', async (t) => {
  const [one, two] = [new AbortController(), new AbortController()];
  const { flight } = play();
  flight.join(one.signal);
  flight.join(two.signal);
  one.abort();
  t.false(flight.signal.aborted);
  two.abort();
  t.true(flight.signal.aborted);

  const ended = play();
  const last = new AbortController();
  ended.flight.join(last.signal);
  ended.end.resolve();
  await ended.flight.whole;
  last.abort();
  t.false(ended.flight.signal.aborted);
});
