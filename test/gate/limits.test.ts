import test from 'ava';
import { newId } from '#lib/ids.ts';
import { openGate, projects, runDry, type } from './scene.ts';

test('no project ever has more handed over than its limit, nor all together more than the window', async (t) => {
  const scene = await openGate(t, { running: 3, slots: 5 });
  const all = projects(6);
  await Promise.all(all.map((project) => scene.admit(project, 12)));
  const ran = await runDry(scene, async () => {
    t.true((await scene.shard.inspect.leased()) <= 6);
    for (const project of all) t.true((await scene.running(project)) <= 3, project);
  });
  t.is(new Set(ran).size, 72);
  t.is(ran.length, 72);
  t.is(await scene.shard.inspect.leased(), 0);
  t.deepEqual(await scene.shard.inspect.running(), {});
  t.deepEqual(await scene.shard.inspect.backlog(10), []);
});

test('the window is 1.2 times the slots of the workers that live', async (t) => {
  const scene = await openGate(t, { running: 100, slots: 10 });
  const [project = ''] = projects(1);
  await scene.admit(project, 60);
  t.is(await scene.shard.inspect.leased(), 12);
  const second = newId();
  await scene.beat(15, second);
  t.is(await scene.shard.inspect.leased(), 30);
  await scene.beat(null, second);
  t.is((await scene.gate.stats(type)).window, 12);
  t.is(await scene.shard.inspect.leased(), 30, 'what is handed over stays so');
  const [first = ''] = await scene.handedOver();
  await scene.finish(first);
  t.is(await scene.shard.inspect.leased(), 29);
});

test('a worker that was silent for 10 s counts no more', async (t) => {
  const scene = await openGate(t, { slots: 10 });
  const gone = newId();
  const key = `{${scene.prefix}:test.job}:gate:workers`;
  await scene.beat(15, gone);
  const [, ...rest] = (await scene.redis.hget(key, gone))?.split(' ') ?? [];
  await scene.redis.hset(key, gone, [Date.now() - 10_500, ...rest].join(' '));
  t.false((await scene.beat()).alive.has(gone));
  t.is((await scene.gate.stats(type)).window, 12);
});

test('without workers nothing is handed over; what waits goes when one comes', async (t) => {
  const scene = await openGate(t, { slots: 0 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 2);
  t.deepEqual(await scene.handedOver(), []);
  await scene.beat(4, newId());
  t.deepEqual(await scene.handedOver(), ids);
});

test('the global limit bounds all projects together below the slots', async (t) => {
  const scene = await openGate(t, { running: 5, slots: 50, globalLimit: 7 });
  const all = projects(4);
  for (const project of all) await scene.admit(project, 5);
  t.is(await scene.shard.inspect.leased(), 7);
  await runDry(scene, async () => void t.true((await scene.shard.inspect.leased()) <= 7));
});

test('a project has so many jobs waiting; the next one is refused, others are not', async (t) => {
  const scene = await openGate(t, { running: 1, waiting: 3 });
  const [full = '', other = ''] = projects(2);
  const ids = await scene.admit(full, 4, true);
  t.is(await scene.waiting(full), 3);
  t.is(await scene.admitOne(full, newId(), true), 'full');
  t.is(await scene.waiting(full), 3);
  t.is(await scene.admitOne(other, newId(), true), 'handed over');
  await scene.finish(ids[0] ?? '');
  t.is(await scene.admitOne(full, newId(), true), 'waiting');
});

test('what may not be refused waits beyond the cap', async (t) => {
  const scene = await openGate(t, { running: 1, waiting: 1 });
  const [project = ''] = projects(1);
  await scene.admit(project, 5);
  t.is(await scene.waiting(project), 4);
});

test('of many requests at once a project gets exactly its places', async (t) => {
  const scene = await openGate(t, { running: 2, waiting: 10 });
  const [project = ''] = projects(1);
  const answers = await Promise.all(Array.from({ length: 100 }, () => scene.admitOne(project, newId(), true)));
  const count = (which: string): number => answers.filter((answer) => answer === which).length;
  t.deepEqual([count('handed over'), count('waiting'), count('full')], [2, 10, 88]);
});

test('a raised limit lets waiting jobs go at once; a lowered one lets none go until enough have ended', async (t) => {
  const scene = await openGate(t, { running: 2, slots: 50 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 12);
  t.is(await scene.running(project), 2);
  scene.limits.set(project, { running: 6, waiting: 100 });
  await scene.gate.rulesChanged({ type, projectId: project });
  t.is(await scene.running(project), 6);
  scene.limits.set(project, { running: 1, waiting: 100 });
  await scene.gate.rulesChanged({ type, projectId: project });
  t.is(await scene.running(project), 6, 'what runs goes on');
  for (const id of ids.slice(0, 5)) await scene.finish(id);
  t.is(await scene.running(project), 1);
  t.is((await scene.handedOver()).length, 6);
  await scene.finish(ids[5] ?? '');
  t.deepEqual([await scene.running(project), (await scene.handedOver()).length], [1, 7]);
});

test('a lowered limit takes effect without a type being named', async (t) => {
  const scene = await openGate(t, { running: 5 });
  const [project = ''] = projects(1);
  await scene.admit(project, 1);
  scene.limits.set(project, { running: 1, waiting: 10 });
  await scene.gate.rulesChanged({ projectId: project });
  t.is(await scene.admitOne(project), 'waiting');
});
