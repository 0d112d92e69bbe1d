import test from 'ava';
import { firstIdAt, newId } from '#lib/ids.ts';
import { openGate, projects, runDry } from './scene.ts';

/** An id of a job that was accepted so long ago. */
const idOfAge = (ms: number): string => firstIdAt(Date.now() - ms).slice(0, 24) + newId().slice(24);

test('within a project the highest priority goes first, and the oldest among those of one priority', async (t) => {
  const { shard, ...scene } = await openGate(t, { running: 1, slots: 5 });
  const [projectId = ''] = projects(1);
  const [first = ''] = await scene.admit(projectId, 1);
  const given = [0, 9, 5, 9, 0].map((priority) => ({ id: newId(), projectId, priority }));
  for (const job of given) await shard.admit(job, false);
  const byPriority = given.toSorted((a, b) => b.priority - a.priority).map(({ id }) => id);
  t.deepEqual(await runDry({ shard, ...scene }), [first, ...byPriority]);
});

test('a job of the lowest priority that has waited 30 s gets every second place while priority 9 floods', async (t) => {
  const { shard, ...scene } = await openGate(t, { running: 1, slots: 5 });
  const [projectId = '', other = ''] = projects(2);
  const [first = ''] = await scene.admit(projectId, 1);
  const old = [idOfAge(32_000), idOfAge(31_000)];
  const young = newId();
  for (const id of [...old, young]) await shard.admit({ id, projectId }, false);
  const flood = Array.from({ length: 6 }, () => ({ id: newId(), projectId, priority: 9 }));
  for (const job of flood) await shard.admit(job, false);
  await scene.admit(other, 1);
  const order = (await runDry({ shard, ...scene })).filter(
    (id) => [...old, young].includes(id) || flood.some((job) => job.id === id) || id === first,
  );
  const [a, b, c, d, e, f] = flood.map(({ id }) => id);
  t.deepEqual(order, [first, old[0], a, old[1], b, c, d, e, f, young]);
});
