import test, { type ExecutionContext } from 'ava';
import { scenarios } from '#faults/scenarios/all.ts';
import type { Stage } from '#faults/scene.ts';
import { onStage, play } from '#faults/stage.ts';
import { faultTestMs } from '#test/support/time-outs.ts';

/** The short run of the fault table: `npm run faults` has all of it, and random faults for as long as one likes. */
const stage = Promise.withResolvers<Stage>();
const over = Promise.withResolvers<number>();
let running: Promise<number> | undefined;

test.before('servers of their own start', async () => {
  running = onStage((ready) => {
    stage.resolve(ready);
    return over.promise;
  });
  const code = await Promise.race([stage.promise, running]);
  if (typeof code === 'number') throw new Error(`the servers did not start (${code})`);
});

test.after.always('the servers stop', async () => {
  over.resolve(0);
  await running;
});

const holds = async (t: ExecutionContext, name: string): Promise<void> => {
  t.timeout(faultTestMs);
  const scenario = scenarios.find((one) => one.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`);
  const missing = await scenario.missing?.(await stage.promise);
  if (missing) {
    t.log(`left out: ${missing}`);
    t.pass();
    return;
  }
  const verdict = await play(await stage.promise, scenario);
  t.deepEqual(verdict.problems, []);
  t.true(verdict.accepted > 0);
};

/** These strike servers that all scenarios share. */
const alone = [
  'Redis killed',
  'Redis flushed',
  'Redis append-only file cut',
  'Redis out of memory',
  'Postgres stopped at once',
  'Postgres down at accept',
];

for (const name of alone) test.serial(`nothing is lost, doubled or above its limit: ${name}`, holds, name);

const together = [
  'worker killed',
  'all workers killed',
  'accepting process killed before the gate',
  'event loop blocked',
  'every add three times',
  'limit lowered while jobs run',
  'project deleted under load',
];

// Each has half a dozen processes: two at a time leave something to the other tests.
const queues = Array.from({ length: 2 }, () => Promise.resolve());

const inTurn = async (t: ExecutionContext, name: string, place: number): Promise<void> => {
  const before = queues[place] ?? Promise.resolve();
  const mine = before.then(() => holds(t, name));
  queues[place] = mine.catch(() => undefined);
  await mine;
};

for (const [n, name] of together.entries()) {
  test(`nothing is lost, doubled or above its limit: ${name}`, inTurn, name, n % queues.length);
}
