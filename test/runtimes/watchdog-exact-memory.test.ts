import test from 'ava';
import { ExactMemory } from '#workers/runtimes/python/exact-memory.ts';

/** Twenty processes of 100 KiB each that share nine tenths of it, a clock, and figures that come when they are let. */
function processes() {
  const state = { now: 0, residentKib: 100, cpuMs: 0, isSlow: false };
  const reader = {
    exactKib: () => (state.isSlow ? new Promise<number>(() => undefined) : Promise.resolve(10)),
    residentKib: () => state.residentKib,
    cpuMs: () => state.cpuMs,
    now: () => state.now,
  };
  // Some of these tests leave a read that never ends.
  const memory = new ExactMemory(reader, { reads: 0 });
  const pids = Array.from({ length: 20 }, (_, index) => index + 1);
  /** @param cpuMs of each process; left out: it is busy all the time */
  const tick = async (ms = 25, cpuMs = ms): Promise<number> => {
    state.now += ms;
    state.cpuMs += cpuMs;
    const held = memory.heldKib(pids);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    return held;
  };
  return { state, tick };
}

test.serial('processes that are new count once until they are read, and then exactly', async (t) => {
  const { tick } = processes();
  t.deepEqual([await tick(), await tick()], [100, 200]);
});

test.serial('what a process has taken since it was first seen, or was read, counts at once', async (t) => {
  const { state, tick } = processes();
  await tick();
  state.residentKib = 150;
  t.is(await tick(), 20 * (10 + 50));
  t.is(await tick(), 20 * 10);
});

test.serial('processes that cannot be read in time count in full', async (t) => {
  const { state, tick } = processes();
  state.isSlow = true;
  t.is(await tick(), 100);
  state.residentKib = 110;
  t.is(await tick(100), 100 + 20 * 10);
  t.is(await tick(60), 20 * 110);
  t.is(await tick(60), 20 * 110, 'and go on to');
});

test.serial('a figure that is old counts no longer', async (t) => {
  const { state, tick } = processes();
  await tick();
  state.isSlow = true;
  t.is(await tick(), 20 * 10);
  t.is(await tick(200), 20 * 100);
});

test.serial(
  'processes that get no processor count no more than before, however long they cannot be read',
  async (t) => {
    const { state, tick } = processes();
    state.isSlow = true;
    t.is(await tick(), 100);
    t.is(await tick(90, 0), 100);
    t.is(await tick(90, 0), 100);
    state.residentKib = 110;
    t.is(await tick(90, 0), 100 + 20 * 10);
    t.is(await tick(90, 3), 20 * 110);
  },
);
