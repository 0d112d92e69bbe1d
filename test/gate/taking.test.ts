import test from 'ava';
import { newId } from '#lib/ids.ts';
import { until } from '#test/support/until.ts';
import { openGate, projects, runDry } from './scene.ts';

test('a job that comes three times is taken once, handed over or waiting', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const [project = ''] = projects(1);
  const ids = Array.from({ length: 20 }, () => newId());
  for (const id of ids) await Promise.all([1, 2, 3].map(() => scene.admitOne(project, id)));
  for (const id of ids) await scene.admitOne(project, id);
  t.is(await scene.waiting(project), 18);
  t.deepEqual(await runDry(scene), ids);
});

test('only the holder of a lease frees it', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const [id = '', next = ''] = await scene.admit(project, 2);
  const [held] = await scene.leases();
  const stale = { id, nonce: String(Number(held?.lease.nonce) - 5000) };
  await scene.shard.finish(stale);
  t.is(await scene.running(project), 1);
  t.deepEqual(await scene.handedOver(), [id]);
  await scene.finish(id);
  t.deepEqual(await scene.handedOver(), [id, next]);
});

test('a lease that is freed twice frees one place', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 6);
  const held = (await scene.leases()).find(({ lease }) => lease.id === ids[0])?.lease ?? { id: '', nonce: '' };
  await Promise.all([scene.shard.finish(held), scene.shard.finish(held), scene.shard.finish(held)]);
  await scene.shard.finish(held);
  t.is(await scene.running(project), 2);
  t.is((await scene.handedOver()).length, 3);
});

test('a waiting job that is withdrawn never runs and leaves no trace', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 3);
  await scene.gate.withdraw({ id: ids[1] ?? '', type: 'test.job', projectId: project });
  t.is(await scene.waiting(project), 1);
  t.deepEqual(await runDry(scene), [ids[0], ids[2]]);
  t.is((await scene.gate.stats('test.job')).waiting, 0);
});

test('a job that is withdrawn after it was handed over keeps its place until its delivery ends', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const [first = '', second = ''] = await scene.admit(project, 2);
  await scene.gate.withdraw({ id: first, type: 'test.job', projectId: project });
  t.deepEqual(await scene.handedOver(), [first]);
  await scene.finish(first);
  t.deepEqual(await scene.handedOver(), [first, second]);
  t.is(await scene.running(project), 1);
});

test('a job that is unknown is withdrawn without effect', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  await scene.admit(project, 4);
  await scene.gate.withdraw({ id: newId(), type: 'test.job', projectId: project });
  t.deepEqual([await scene.running(project), await scene.waiting(project)], [2, 2]);
});

test('a lease is held until it is freed, given anew or lost; only the newest lets its job begin', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const [id = '', waits = ''] = await scene.admit(project, 2);
  const leaseNow = async () => (await scene.leases())[0]?.lease ?? { id: '', nonce: '' };
  const first = await leaseNow();
  t.true(await scene.shard.isHeld(first));
  t.false(await scene.shard.isHeld({ id: waits, nonce: first.nonce }));
  // A lease is named by its millisecond.
  await until(async () => (await scene.beat()).now > Number(first.nonce));
  await scene.shard.renew([{ id }, { id: waits }]);
  const second = await leaseNow();
  t.is(second.id, id);
  t.false(await scene.shard.isHeld(first));
  t.true(await scene.shard.isHeld(second));
  t.deepEqual(await scene.handedOver(), [id, id], 'it comes once more, and nobody else came in between');
  await scene.shard.finish(first);
  t.is(await scene.running(project), 1, 'the older lease frees nothing');
  await scene.shard.finish(second);
  t.false(await scene.shard.isHeld(second));
  t.is((await scene.handedOver()).at(-1), waits);
});

test('limits of idle projects are forgotten and read anew with their next job', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [idle = '', busy = ''] = projects(2);
  const [id = ''] = await scene.admit(idle, 1);
  await scene.admit(busy, 2);
  await scene.finish(id);
  scene.limits.set(idle, { running: 3, waiting: 10 });
  scene.limits.set(busy, { running: 3, waiting: 10 });
  await scene.shard.forgetIdle();
  t.is(await scene.shard.inspect.knownProjects(), 1);
  await scene.admit(idle, 5);
  await scene.admit(busy, 1);
  t.deepEqual([await scene.running(idle), await scene.running(busy)], [3, 1]);
});

test('where jobs stand is answered for many at once, in their order', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = '', other = ''] = projects(2);
  const ids = await scene.admit(project, 3);
  const [alone = ''] = await scene.admit(other, 1);
  const refs = [ids[2], alone, newId(), ids[0], ids[1]].map((id = '') => ({
    id,
    type: 'test.job',
    projectId: id === alone ? other : project,
  }));
  t.deepEqual(await scene.gate.places(refs), [
    { state: 'waiting', position: 2, reason: 'project_limit' },
    { state: 'handed over', position: null, reason: null },
    { state: 'absent', position: null, reason: null },
    { state: 'handed over', position: null, reason: null },
    { state: 'waiting', position: 1, reason: 'project_limit' },
  ]);
  t.deepEqual(await scene.gate.places([]), []);
});
