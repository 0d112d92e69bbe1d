import test from 'ava';
import { globalLimitOf, globalLimits, noteGlobalSettings, setGlobalLimit } from '#domain/jobs/limits.ts';
import { newId } from '#lib/ids.ts';
import { heldRuns, insertProject, openEngine, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

const { type } = testJobs.steady;

test('two workers count by one global limit, and a change of it is in force at once', async (t) => {
  const scene = await openEngine(t);
  const { db, queues } = scene;
  await setGlobalLimit(db, type, 1);
  const held = heldRuns();
  await scene.startWorker(held.run);
  await scene.startWorker(held.run);
  const projects = [await insertProject(db, 'pro'), await insertProject(db, 'pro')];
  const ids: string[] = [];
  for (let i = 0; i < 6; i += 1) ids.push(await scene.accept(testJobs.steady, projects[i % 2]));
  await until(() => held.contexts.length === 1);
  t.like(await queues.gate.stats(type), { window: 1, leased: 1, waiting: 5 });
  await setGlobalLimit(db, type, 3);
  await queues.gate.rulesChanged({ type });
  t.like(await queues.gate.stats(type), { window: 3, leased: 3, waiting: 3 });
  // Every heartbeat of either worker leaves it as it is.
  const [shard] = queues.gate.shards(type);
  const workerId = newId();
  const info = JSON.stringify({ name: 'w', running: 0, startedAt: 0 });
  for (let i = 0; i < 3; i += 1) await shard?.beat({ workerId, slots: 50, info });
  t.is((await queues.gate.stats(type)).window, 3);
  held.release();
  for (const id of ids) await scene.rowWhen(id, 'succeeded');
});

test('the setting of the worker that was started last counts, and what operators set counts before it', async (t) => {
  const { db } = await openEngine(t);
  t.deepEqual(await noteGlobalSettings(db, new Map([[type, 5]])), []);
  t.deepEqual(await noteGlobalSettings(db, new Map([[type, 5]])), []);
  t.deepEqual(await globalLimitOf(db, type), { type, limit: 5, own_limit: null });
  t.deepEqual(await noteGlobalSettings(db, new Map([[type, 7]])), [type], 'another setting is said to be another one');
  await setGlobalLimit(db, type, 2);
  await noteGlobalSettings(db, new Map<string, number | null>([[type, null]]));
  t.deepEqual(await globalLimits(db), [{ type, limit: 2, own_limit: 2 }]);
  await setGlobalLimit(db, type, null);
  t.deepEqual(await globalLimitOf(db, type), { type, limit: null, own_limit: null });
});

test('workers that start at once agree on the setting', async (t) => {
  const { db } = await openEngine(t);
  const started = Array.from({ length: 6 }, (_, i) =>
    noteGlobalSettings(
      db,
      new Map([
        ['a', i + 1],
        ['b', i + 1],
      ]),
    ),
  );
  await Promise.all(started);
  const limits = await globalLimits(db);
  t.is(limits.length, 2);
  t.true(limits.every(({ limit }) => limit !== null));
});
