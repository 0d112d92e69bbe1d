import test from 'ava';
import type { EventSource } from '#domain/events/subscriptions.ts';
import { type Drains, createDrains } from '#workers/relay/drain-scheduler.ts';

const sourceOf = (project_id: string): EventSource => ({
  project_id,
  server_id: 's',
  db_name: project_id,
  changed_at: '',
});

/** Turns that end when the test says so. */
const scene = (slots = 4, largeSlots = 3) => {
  const order: string[] = [];
  const asLarge: string[] = [];
  const marked: string[] = [];
  const ends = new Map<string, (hasMore: boolean) => void>();
  const drains = createDrains({
    slots,
    largeSlots,
    markDirty: (id) => void marked.push(id),
    drain: ({ project_id }, isLarge) => {
      order.push(project_id);
      if (isLarge) asLarge.push(project_id);
      return new Promise((resolve) => void ends.set(project_id, resolve));
    },
  });
  /** Ends a turn, and what follows from that. */
  const end = async (id: string, hasMore: boolean): Promise<void> => {
    const finish = ends.get(id);
    ends.delete(id);
    finish?.(hasMore);
    await new Promise(setImmediate);
  };
  return { drains, order, asLarge, marked, end, running: () => [...ends.keys()] };
};

const beginAll = (drains: Drains, ids: readonly string[]): void => ids.forEach((id) => drains.begin(sourceOf(id)));

/** Five projects that had more than fits into their first turn. */
const flooded = async () => {
  const made = scene();
  const large = ['a', 'b', 'c', 'd', 'e'];
  for (const id of large) {
    beginAll(made.drains, [id]);
    await made.end(id, true);
  }
  return { ...made, large };
};

test('projects with large backlogs leave a slot, which a project with few events gets at once', async (t) => {
  const { drains, running } = await flooded();
  t.is(running().length, 3);
  t.false(drains.isFull());
  beginAll(drains, ['quiet']);
  t.true(running().includes('quiet'));
  t.true(drains.isFull());
});

test('projects with large backlogs are drained one after the other, however often they are marked', async (t) => {
  const { drains, order, end, running, large } = await flooded();
  order.length = 0;
  for (let turn = 0; turn < 12; turn += 1) {
    beginAll(drains, [...large, ...large]);
    t.is(running().length, 3);
    await end(running()[0] ?? '', true);
  }
  const counts = large.map((id) => order.filter((each) => each === id).length);
  t.true(Math.max(...counts) - Math.min(...counts) <= 1, String(counts));
});

test('a project whose backlog is gone waits behind no large one any more', async (t) => {
  const { drains, end, running } = await flooded();
  const [first = '', ...rest] = running();
  await end(first, false);
  t.is(running().length, 3, 'the next large one has its slot');
  beginAll(drains, [first]);
  t.true([first, ...rest].every((id) => running().includes(id)));
});

test('a project that is marked during its turn is asked for once more, and never has two at a time', async (t) => {
  const { drains, order, marked, end } = scene();
  beginAll(drains, ['a', 'a', 'a']);
  t.deepEqual(order, ['a']);
  await end('a', false);
  t.deepEqual(marked, ['a']);
  beginAll(drains, ['a']);
  await end('a', false);
  t.deepEqual(marked, ['a'], 'nobody marked it meanwhile');
});

test('who stops begins nothing new and waits for what runs', async (t) => {
  const { drains, order, end } = await flooded();
  const before = order.length;
  let stopped = false;
  const stopping = drains.stop().then(() => (stopped = true));
  for (const id of ['a', 'b']) await end(id, true);
  t.false(stopped);
  await end('c', true);
  await stopping;
  t.is(order.length, before);
});

test('a turn is told that the backlog is large until a turn has emptied it', async (t) => {
  const { drains, order, asLarge, end } = scene();
  beginAll(drains, ['a']);
  await end('a', true);
  t.deepEqual([order, asLarge], [['a', 'a'], ['a']]);
  await end('a', false);
  beginAll(drains, ['a']);
  t.deepEqual([order, asLarge], [['a', 'a', 'a'], ['a']]);
});
