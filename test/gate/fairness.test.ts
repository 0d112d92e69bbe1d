import test from 'ava';
import { openGate, projects, runDry } from './scene.ts';

test('projects with waiting jobs are served in turns, whatever the length of their queues', async (t) => {
  const scene = await openGate(t, { running: 1, slots: 1, globalLimit: 1 });
  const [noisy = '', quiet = '', other = ''] = projects(3);
  const many = await scene.admit(noisy, 6);
  const few = await scene.admit(quiet, 2);
  const one = await scene.admit(other, 1);
  const order = await runDry(scene);
  // The noisy one is at its limit until its first has ended: then it queues up behind those who waited meanwhile.
  t.deepEqual(order, [many[0], few[0], one[0], many[1], few[1], many[2], many[3], many[4], many[5]]);
});

test('a job of a quiet project is next but for the turns of the others, behind 2,000 of a noisy one', async (t) => {
  const scene = await openGate(t, { running: 5, slots: 5, globalLimit: 5 });
  const [noisy = '', quiet = ''] = projects(2);
  await scene.admit(noisy, 2000);
  const [first = ''] = await scene.admit(quiet, 1);
  const [running = ''] = await scene.handedOver();
  await scene.finish(running);
  const [next = ''] = (await scene.handedOver()).slice(5);
  if (next !== first) await scene.finish(next);
  t.true((await scene.handedOver()).slice(0, 7).includes(first));
});

test('the jobs of one project run in the order of their acceptance, also when a place is free only later', async (t) => {
  const scene = await openGate(t, { running: 2, slots: 10 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 30);
  t.deepEqual(await runDry(scene), ids);
});

test('jobs that are found again take their place by age', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 5);
  const lost = ids[2] ?? '';
  await scene.redis.zrem(`{${scene.prefix}:test.job}:gate:pend:${project}`, lost);
  t.is(await scene.admitOne(project, lost), 'waiting');
  t.deepEqual(await runDry(scene), ids);
});

test('a project that may have no job running is not served and holds up nobody', async (t) => {
  const scene = await openGate(t, { running: 1, slots: 1, globalLimit: 1 });
  const [none = '', some = ''] = projects(2);
  scene.limits.set(none, { running: 0, waiting: 10 });
  await scene.admit(none, 3);
  const ids = await scene.admit(some, 3);
  t.deepEqual(await runDry(scene), ids);
  t.is(await scene.waiting(none), 3);
});
