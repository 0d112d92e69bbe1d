import test from 'ava';
import { startCronTick } from '#domain/cron/tick.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { until } from '#test/support/until.ts';
import { inScene, insertSchedule, jobsOf, runsOf } from './scene.ts';

inScene('ticks come by themselves until they are stopped', async (t, scene) => {
  const first = await insertSchedule(scene);
  let ticks = 0;
  const ticking = startCronTick({ ...scene.deps, onTick: () => (ticks += 1) });
  await until(async () => (await jobsOf(scene, first)).length === 1);
  const second = await insertSchedule(scene, { dueFor: -1 });
  await until(async () => (await jobsOf(scene, second)).length === 1);
  await ticking.stop();
  const third = await insertSchedule(scene);
  const before = ticks;
  await until(() => Date.now() % 1000 < 100);
  await until(() => Date.now() % 1000 > 500);
  t.deepEqual(await runsOf(scene, third), []);
  t.is(ticks, before);
});

inScene('a tick that fails is followed by one that does its work', async (t, scene) => {
  const id = await insertSchedule(scene);
  let broken = true;
  const db: ControlDb = {
    ...scene.db,
    transaction: (work, settings) => {
      if (!broken) return scene.db.transaction(work, settings);
      broken = false;
      return Promise.reject(new Error('Connection terminated unexpectedly'));
    },
  };
  const ticking = startCronTick({ ...scene.deps, db });
  await until(async () => (await jobsOf(scene, id)).length === 1);
  await ticking.stop();
  t.regex(scene.logged(), /the cron tick failed/);
  t.is((await runsOf(scene, id)).length, 1);
});

test('stopping waits for the tick that is at work', async (t) => {
  const polled = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<never[]>();
  const db = {
    query: () => {
      polled.resolve();
      return answer.promise;
    },
  } as unknown as ControlDb;
  const gate = { admit: () => Promise.resolve('waiting' as const) };
  let ticked = false;
  const ticking = startCronTick({ db, gate, log: { warn: () => undefined } as never, onTick: () => (ticked = true) });
  await polled.promise;
  const stopped = ticking.stop();
  answer.resolve([]);
  await stopped;
  t.true(ticked);
});
