import test from 'ava';
import type { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { Exchange } from '#domain/ai/providers/transport.ts';

const times = { firstByteMs: 1000, idleMs: 2000, totalMs: 60_000 };
const watch = { add: () => undefined, remove: () => undefined };

const nothing = (): void => undefined;

const open = () => {
  const faults: ProviderFault[] = [];
  const receiver = { head: nothing, data: nothing, end: nothing, fail: (fault: ProviderFault) => faults.push(fault) };
  const exchange = new Exchange(receiver, times, watch, new AbortController().signal);
  return { exchange, faults, pollIn: (ms: number) => exchange.check(performance.now() + ms) };
};

test('the first byte is waited for, then each next one', (t) => {
  const { exchange, faults, pollIn } = open();
  pollIn(500);
  exchange.onResponseData(null, Buffer.from('a'));
  pollIn(1500);
  t.is(faults.length, 0);
  pollIn(2500);
  t.deepEqual(
    faults.map(({ kind }) => kind),
    ['timeout'],
  );
  pollIn(5000);
  t.is(faults.length, 1);
});

test('of a stream the first words are waited for, whatever bytes come before them', (t) => {
  const { exchange, faults, pollIn } = open();
  exchange.awaitFirst();
  exchange.onResponseData(null, Buffer.from(': still thinking'));
  pollIn(900);
  t.is(faults.length, 0);
  exchange.started();
  pollIn(1500);
  t.is(faults.length, 0);
  pollIn(2500);
  t.is(faults.length, 1);
  const silent = open();
  silent.exchange.awaitFirst();
  silent.exchange.onResponseData(null, Buffer.from(': still thinking'));
  silent.pollIn(1500);
  t.deepEqual(
    silent.faults.map(({ kind }) => kind),
    ['timeout'],
  );
});

test('a provider that is kept waiting is not blamed for it, neither then nor just after; all in all there is an end', (t) => {
  const { exchange, faults, pollIn } = open();
  exchange.pause();
  pollIn(50_000);
  exchange.resume();
  pollIn(1500);
  t.is(faults.length, 0);
  exchange.pause();
  pollIn(61_000);
  t.is(faults[0]?.kind, 'timeout');
});
