import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { shareAnswer } from '#domain/assistant/assistant.ts';

const stays = new AbortController().signal;

const play = () => {
  const end = Promise.withResolvers<void>();
  const says: ((piece: string) => void)[] = [];
  const answer = shareAnswer((_signal, emit) => {
    says.push(emit);
    return end.promise;
  });
  return { answer, say: (piece: string) => says[0]?.(piece), end };
};

const all = async (pieces: AsyncIterable<string>): Promise<string[]> => {
  const found: string[] = [];
  for await (const piece of pieces) found.push(piece);
  return found;
};

test('a late reader gets the text so far at once, then the further pieces', async (t) => {
  const { answer, say, end } = play();
  answer.join(stays);
  say('a');
  say('b');
  await answer.started;
  const late = all(answer.pieces());
  await nextTurn();
  say('c');
  end.resolve();
  t.deepEqual(await late, ['ab', 'c']);
  t.is(await answer.whole, 'abc');
  t.deepEqual(await all(answer.pieces()), ['abc']);
});

test('an answer that breaks off ends with its error after the pieces that came', async (t) => {
  const { answer, say, end } = play();
  say('a');
  const received: string[] = [];
  const reading = (async () => {
    for await (const piece of answer.pieces()) received.push(piece);
  })();
  await nextTurn();
  end.reject(new Error('broken'));
  await t.throwsAsync(reading, { message: 'broken' });
  await t.throwsAsync(answer.whole, { message: 'broken' });
  t.deepEqual(received, ['a']);
  await t.notThrowsAsync(answer.started);
});

test('an answer that fails before its first piece does not start', async (t) => {
  const { answer, end } = play();
  end.reject(new Error('refused'));
  await t.throwsAsync(answer.started, { message: 'refused' });
  await t.throwsAsync(all(answer.pieces()), { message: 'refused' });
});

test('the writing is stopped when the last waiting reader has left, not before, and not once it has ended', async (t) => {
  const [one, two] = [new AbortController(), new AbortController()];
  const { answer } = play();
  answer.join(one.signal);
  answer.join(two.signal);
  one.abort();
  t.false(answer.signal.aborted);
  two.abort();
  t.true(answer.signal.aborted);

  const ended = play();
  const last = new AbortController();
  ended.answer.join(last.signal);
  ended.end.resolve();
  await ended.answer.whole;
  last.abort();
  t.false(ended.answer.signal.aborted);
});
