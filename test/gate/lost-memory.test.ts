import test from 'ava';
import { newId } from '#lib/ids.ts';
import { until } from '#test/support/until.ts';
import { openGate, projects, runDry, type } from './scene.ts';

const keysOf = (prefix: string): string => `{${prefix}:${type}}:gate:`;

test('a gate that was never opened hands over nothing', async (t) => {
  const scene = await openGate(t, { open: false });
  const [project = ''] = projects(1);
  t.is(await scene.admitOne(project), 'waiting');
  t.false((await scene.beat()).open);
  t.deepEqual(await scene.handedOver(), []);
});

test('after Redis lost everything the gate stays shut until it is restored, then holds what runs', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const [project = '', other = ''] = projects(2);
  const [first = '', second = '', ...waiting] = await scene.admit(project, 5);
  await scene.redis.unlink(...(await scene.redis.keys(`${keysOf(scene.prefix)}*`)), scene.shard.queue.toKey('wait'));
  t.is(await scene.admitOne(other), 'waiting');
  await scene.beat();
  t.deepEqual(await scene.handedOver(), []);
  const running = [first, second].map((id) => ({ id, projectId: project }));
  await scene.shard.restore(2, running);
  for (const id of waiting) await scene.admitOne(project, id);
  await scene.beat();
  t.is(await scene.running(project), 2);
  t.is(await scene.running(other), 1);
  t.is(await scene.waiting(project), 3);
  // The worker that ran a job whose lease was restored may free it, whatever lease it had before.
  await scene.shard.finish({ id: first, nonce: '17' });
  t.is(await scene.running(project), 2);
  t.is((await scene.handedOver()).at(-1), waiting[0]);
});

test('a Redis that was started anew may have forgotten leases: the gate is shut until it is restored', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 4);
  await scene.redis.hset(`${keysOf(scene.prefix)}conf`, 'server', 'another one');
  t.false((await scene.beat()).open);
  t.false((await scene.gate.stats(type)).open);
  await scene.finish(ids[0] ?? '');
  t.is((await scene.handedOver()).length, 2);
  await scene.shard.restore(2, [{ id: ids[1] ?? '', projectId: project }]);
  t.true((await scene.beat()).open);
  t.is(await scene.running(project), 2);
  t.deepEqual(await scene.handedOver(), ids.slice(0, 3));
});

test('a job that comes right after the gate was opened does not overtake those that waited', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 5);
  await scene.shard.restore(2, []);
  const late = newId();
  t.is(await scene.admitOne(project, late), 'waiting');
  await scene.beat();
  t.deepEqual((await scene.handedOver()).slice(2), ids.slice(2, 4));
});

test('of two that restore at once the later life counts, and an older one changes nothing', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  const [id = ''] = await scene.admit(project, 1);
  await scene.shard.restore(5, [{ id, projectId: project }]);
  await scene.shard.restore(4, []);
  t.is(await scene.running(project), 1);
  t.is((await scene.beat()).epoch, '5');
});

test('a job that waits and turns out to run is no longer handed over', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = ''] = projects(1);
  const [first = '', second = ''] = await scene.admit(project, 2);
  await scene.shard.restore(
    2,
    [first, second].map((id) => ({ id, projectId: project })),
  );
  await scene.beat();
  t.deepEqual([await scene.running(project), await scene.waiting(project)], [2, 0]);
  t.deepEqual(await scene.handedOver(), [first]);
});

test('limits that are missing mean that nothing goes, until they are known again', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const [project = '', other = ''] = projects(2);
  const [first = '', second = ''] = await scene.admit(project, 2);
  const [fine = ''] = await scene.admit(other, 1);
  await scene.redis.hdel(`${keysOf(scene.prefix)}shares`, project);
  await scene.finish(first);
  t.deepEqual(await scene.handedOver(), [first, fine]);
  t.deepEqual((await scene.beat()).unknown, [project]);
  await scene.shard.setLimits(new Map([[project, { running: 1, waiting: 10 }]]));
  t.deepEqual(await scene.handedOver(), [first, fine, second]);
  t.deepEqual((await scene.beat()).unknown, []);
});

test('a job whose project’s limits cannot be read is not taken, and nobody else is held up', async (t) => {
  const away = newId();
  const scene = await openGate(t, {
    rules: {
      limitsOf: (_type, ids) =>
        ids.includes(away)
          ? Promise.reject(new Error('Postgres is away'))
          : Promise.resolve(new Map(ids.map((id) => [id, { running: 1, waiting: 10 }]))),
      globalLimitOf: () => Promise.resolve(null),
      pausesOf: () => Promise.resolve([]),
    },
  });
  const [project = ''] = projects(1);
  await t.throwsAsync(scene.admitOne(away), { message: 'Postgres is away' });
  t.is(await scene.waiting(away), 0);
  t.is(await scene.admitOne(project), 'handed over');
});

test('everything that runs dry leaves no counter behind', async (t) => {
  const scene = await openGate(t, { running: 2 });
  const all = projects(3);
  for (const project of all) await scene.admit(project, 5);
  await scene.shard.restore(
    9,
    (await scene.leases()).map(({ lease, projectId }) => ({ id: lease.id, projectId })),
  );
  await scene.beat();
  t.is((await runDry(scene)).length, 15);
  const stats = await scene.gate.stats(type);
  t.like(stats, { waiting: 0, leased: 0 });
  t.deepEqual(await scene.redis.keys(`${keysOf(scene.prefix)}pend:*`), []);
  t.is(await scene.redis.zcard(`${keysOf(scene.prefix)}ring`), 0);
});

test('a connection that was moved to another server closes the gate with the next heartbeat', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  t.true((await scene.beat()).open);
  // As behind a proxy that keeps its clients' connections when it changes the server.
  const info = scene.redis.info.bind(scene.redis);
  scene.redis.info = (async (section: string) =>
    (await info(section)).replace(/^run_id:\w+/m, 'run_id:another')) as typeof info;
  await until(async () => !(await scene.beat()).open);
  t.is(await scene.admitOne(project), 'waiting');
});
