import test from 'ava';
import { createByteBudget } from '#lib/byte-budget.ts';

const budget = (perOwner: number, total: number) => createByteBudget({ perOwner, total });

test('an owner holds up to its limit, over all its holders', (t) => {
  const bytes = budget(100, 1000);
  const [first, second] = [bytes.reserve('a'), bytes.reserve('a')];
  t.true(first.grow(60));
  t.false(second.grow(41));
  t.true(second.grow(40));
  t.is(bytes.reservedBy('a'), 100);
  first.release();
  t.true(second.grow(60));
});

test('owners who take all they can leave room for the next', (t) => {
  const bytes = budget(1000, 1000);
  for (let i = 0; i < 9; i += 1) {
    const holder = bytes.reserve(`greedy ${i}`);
    while (holder.grow(1));
  }
  t.true(bytes.reserved() < 1000);
  t.true(bytes.reserve('late').grow(1));
  t.false(bytes.reserve('greedy 0').grow(1));
});

test('many owners of one group take no more of the whole than one party does', (t) => {
  const bytes = budget(100, 1000);
  const greedy = Array.from({ length: 50 }, (_, i) => bytes.reserve(`greedy ${i}`, 'one party'));
  for (const holder of greedy) while (holder.grow(1));
  t.is(bytes.reserved(), 500);
  t.is(bytes.reservedBy('greedy 0'), 100);
  const other = bytes.reserve('other', 'another party');
  t.true(other.grow(100));
  for (const holder of [...greedy, other]) holder.release();
  t.is(bytes.reserved(), 0);
  t.true(bytes.reserve('late', 'one party').grow(100));
});

test('what is released is given back once, and nothing is granted after it', (t) => {
  const bytes = budget(100, 1000);
  const holder = bytes.reserve('a');
  holder.grow(50);
  holder.shrink(20);
  t.is(bytes.reserved(), 30);
  holder.release();
  holder.release();
  t.is(bytes.reserved(), 0);
  t.false(holder.grow(1));
  t.is(bytes.reservedBy('a'), 0);
});

test('an owner never gives back more than it holds', (t) => {
  const bytes = budget(100, 1000);
  const holder = bytes.reserve('a');
  holder.grow(10);
  holder.shrink(500);
  t.is(bytes.reserved(), 0);
});
