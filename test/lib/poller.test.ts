import test from 'ava';
import { startPoller } from '#lib/poller.ts';

const hourMs = 3_600_000;

/** Rounds that are counted as they start, and that end when the test ends them. */
const gatedRounds = () => {
  const rounds: PromiseWithResolvers<void>[] = [];
  const round = (): Promise<void> => {
    const gate = Promise.withResolvers<void>();
    rounds.push(gate);
    return gate.promise;
  };
  const started = async (count: number): Promise<void> => {
    while (rounds.length < count) await new Promise(setImmediate);
  };
  return { rounds, round, started };
};

const ignore = (): void => undefined;

test('rounds follow each other after the interval, and none starts before the last one has ended', async (t) => {
  const { rounds, round, started } = gatedRounds();
  const poller = startPoller(round, { everyMs: 1, onFailure: ignore });
  t.is(rounds.length, 1, 'the first one starts at once');
  await new Promise((resolve) => setTimeout(resolve, 5));
  t.is(rounds.length, 1);
  rounds[0]?.resolve();
  await started(2);
  rounds[1]?.resolve();
  await started(3);
  rounds[2]?.resolve();
  await poller.stop();
});

test('a poller that is woken starts a round at once, or right after the one under way', async (t) => {
  const { rounds, round, started } = gatedRounds();
  const poller = startPoller(round, { everyMs: hourMs, firstInMs: hourMs, onFailure: ignore });
  t.is(rounds.length, 0);
  poller.wake();
  t.is(rounds.length, 1, 'even when the poller is stopped right after');
  poller.wake();
  poller.wake();
  rounds[0]?.resolve();
  await started(2);
  rounds[1]?.resolve();
  await new Promise(setImmediate);
  t.is(rounds.length, 2, 'two calls during one round are one further round');
  await poller.stop();
});

test('the first of several failures in a row is reported, and the rounds go on', async (t) => {
  const failures: string[] = [];
  const done = Promise.withResolvers<void>();
  let count = 0;
  const round = async (): Promise<void> => {
    count += 1;
    if (count === 5) done.resolve();
    if (count !== 3) throw new Error(`round ${count}`);
  };
  const poller = startPoller(round, { everyMs: 1, onFailure: (error) => failures.push(String(error)) });
  // The poller's own timers do not keep the process alive.
  const alive = setInterval(ignore, hourMs);
  await done.promise;
  clearInterval(alive);
  await poller.stop();
  t.deepEqual(failures, ['Error: round 1', 'Error: round 4']);
});

test('waking does not shorten the pause after a failure', async (t) => {
  const { rounds, round, started } = gatedRounds();
  const poller = startPoller(round, { everyMs: hourMs, onFailure: ignore });
  // Timers fire in the order of their times, however busy the machine is: the pause of 100 ms begins later than this.
  let isFirst = false;
  setTimeout(() => (isFirst = rounds.length === 1), 50);
  rounds[0]?.reject(new Error('away'));
  await new Promise(setImmediate);
  poller.wake();
  await started(2);
  t.true(isFirst);
  rounds[1]?.resolve();
  await poller.stop();
});

test('a poller that is stopped tells its round so, waits for it, and starts no other', async (t) => {
  const gate = Promise.withResolvers<void>();
  let rounds = 0;
  let signal: AbortSignal | undefined;
  const poller = startPoller(
    async (stopping) => {
      rounds += 1;
      signal = stopping;
      await gate.promise;
    },
    { everyMs: 0, onFailure: ignore },
  );
  let isStopped = false;
  const stopped = poller.stop().then(() => (isStopped = true));
  await new Promise(setImmediate);
  t.false(isStopped);
  t.true(signal?.aborted);
  gate.resolve();
  await stopped;
  poller.wake();
  await new Promise(setImmediate);
  t.is(rounds, 1);
});
