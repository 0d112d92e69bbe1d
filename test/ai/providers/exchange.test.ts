import test from 'ava';
import type { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { Exchange } from '#domain/ai/providers/exchange.ts';

const times = { firstByteMs: 1000, idleMs: 2000, totalMs: 60_000 };
const watch = { add: () => undefined, remove: () => undefined };

const nothing = (): void => undefined;

const open = () => {
  const faults: ProviderFault[] = [];
  const receiver = { head: nothing, data: nothing, end: nothing, fail: (fault: ProviderFault) => faults.push(fault) };
  const exchange = new Exchange(receiver, times, watch, new AbortController().signal);
  return { exchange, faults, lookIn: (ms: number) => exchange.look(performance.now() + ms) };
};

test('the first byte is waited for, then each next one', (t) => {
  const { exchange, faults, lookIn } = open();
  lookIn(500);
  exchange.onResponseData(null, Buffer.from('a'));
  lookIn(1500);
  t.is(faults.length, 0);
  lookIn(2500);
  t.deepEqual(
    faults.map(({ kind }) => kind),
    ['timeout'],
  );
  lookIn(5000);
  t.is(faults.length, 1);
});

test('a provider that is kept waiting is not blamed for it, neither then nor just after; all in all there is an end', (t) => {
  const { exchange, faults, lookIn } = open();
  exchange.pause();
  lookIn(50_000);
  exchange.resume();
  lookIn(1500);
  t.is(faults.length, 0);
  exchange.pause();
  lookIn(61_000);
  t.is(faults[0]?.kind, 'timeout');
});
