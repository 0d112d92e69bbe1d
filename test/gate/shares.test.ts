import test from 'ava';
import { newId } from '#lib/ids.ts';
import { keptOf } from '#queues/gate/types.ts';
import { type GateScene, openGate, projects, runDry, type } from './scene.ts';

const keysOf = ({ prefix }: GateScene): string => `{${prefix}:${type}}:gate:`;

const numbersIn = async (scene: GateScene, name: string): Promise<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(await scene.redis.hgetall(`${keysOf(scene)}${name}`)).map(([key, value]) => [key, Number(value)]),
  );

/** Ends what runs, one by one, until nothing does. */
const drain = async (scene: GateScene, inspect: () => Promise<void> = () => Promise.resolve()): Promise<void> => {
  for (;;) {
    const [held] = await scene.leases();
    if (held === undefined) return;
    await inspect();
    await scene.finish(held.lease.id);
  }
};

const ofOrganization = (id: string, running: number) => ({ organization: { id, running } });

test('one place in five is kept, at least one from two places on', (t) => {
  t.deepEqual([0, 1, 2, 4, 5, 9, 10, 25, 100].map(keptOf), [0, 0, 1, 1, 1, 1, 2, 5, 20]);
});

test('jobs that nobody waits for use four places of five; a call has the fifth at once', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 100, kept: 1 });
  await scene.admit(project, 20);
  t.is(await scene.running(project), 4);
  const call = newId();
  t.is(await scene.admitAwaited(project, call), 'handed over');
  t.is((await scene.handedOver()).at(-1), call);
  await scene.finish(call);
  t.is(await scene.running(project), 4, 'the place stays free for the next call');
  t.is(await scene.waiting(project), 16);
});

test('calls may use every place, and go before all that nobody waits for', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 100, kept: 1 });
  const calls = Array.from({ length: 7 }, () => newId());
  for (const id of calls) await scene.admitAwaited(project, id);
  t.is(await scene.running(project), 5);
  const urgent = newId();
  await scene.gate.admit({ id: urgent, type, projectId: project, priority: 9 }, false);
  const late = newId();
  t.is(await scene.admitAwaited(project, late), 'waiting');
  t.deepEqual(await runDry(scene), [...calls, late, urgent]);
});

test('a place tells why a job waits: the rest of its project is in use, though a kept place is free', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 2, waiting: 100, kept: 1 });
  const [, second = ''] = await scene.admit(project, 2);
  const [place] = await scene.gate.places([{ id: second, type, projectId: project }]);
  t.deepEqual(place, { state: 'waiting', position: 1, reason: 'project_limit' });
});

test('a call beside 10,000 waiting jobs of its project is handed over at once', async (t) => {
  const scene = await openGate(t);
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 20_000, kept: 1 });
  await Promise.all(Array.from({ length: 10_000 }, () => scene.admitOne(project)));
  for (let nth = 0; nth < 3; nth += 1) {
    const call = newId();
    t.is(await scene.admitAwaited(project, call), 'handed over');
    await scene.finish(call);
  }
  t.is(await scene.waiting(project), 9996);
});

test('in a full window a call waits for the turn of its project, not for the backlog of it', async (t) => {
  const scene = await openGate(t, { slots: 0 });
  const [noisy = '', other = ''] = projects(2);
  scene.limits.set(noisy, { running: 5, waiting: 100, kept: 1 });
  await scene.admit(noisy, 10);
  await scene.admit(other, 1);
  const call = newId();
  t.is(await scene.admitAwaited(noisy, call), 'waiting');
  await scene.beat(1);
  t.is((await scene.handedOver())[0], call);
});

test('work that has waited for 30 s gets every second place of the rest while calls flood, and never a kept one', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 2, waiting: 100, kept: 1 });
  const calls = Array.from({ length: 8 }, () => newId());
  for (const id of calls) await scene.admitAwaited(project, id);
  const time = Date.now() - 40_000;
  const old = [0, 1, 2].map((nth) =>
    newId().replace(
      /^.{13}/,
      (time + nth)
        .toString(16)
        .padStart(12, '0')
        .replace(/^(.{8})/, '$1-'),
    ),
  );
  for (const id of old) await scene.admitOne(project, id);
  const behind = async (): Promise<number> =>
    (await scene.leases()).filter(({ lease }) => old.includes(lease.id)).length;
  const order = await runDry(scene, async () => {
    t.true((await behind()) <= 1);
  });
  t.is(order.length, 11);
  t.true(order.indexOf(old[0] ?? '') < order.indexOf(calls[4] ?? ''), 'it does not wait for the end of the flood');
  t.true(order.indexOf(calls[5] ?? '') < order.indexOf(old[2] ?? ''), 'nor do the calls wait for all of it');
});

test('restored leases count as work that nobody waits for, and a lease that is renewed keeps its kind', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 100, kept: 1 });
  const call = newId();
  await scene.admitAwaited(project, call);
  await scene.shard.renew([{ id: call }]);
  await scene.admit(project, 6);
  t.is(await scene.running(project), 5);
  t.deepEqual(await numbersIn(scene, 'back'), { [project]: 4 });
  const running = (await scene.leases()).map(({ lease, projectId }) => ({ id: lease.id, projectId }));
  await scene.shard.restore(2, running);
  t.deepEqual(await numbersIn(scene, 'back'), { [project]: 5 });
  await drain(scene);
  t.deepEqual(await numbersIn(scene, 'back'), {});
  t.is(await scene.waiting(project), 0);
});

test('without BullMQ’s scripts a call is handed over under the same kind of lease', async (t) => {
  const scene = await openGate(t, { bullmqScripts: null });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 2, waiting: 100, kept: 1 });
  const [first = ''] = await scene.admit(project, 2);
  const call = newId();
  t.is(await scene.admitAwaited(project, call), 'handed over');
  t.deepEqual(await scene.handedOver(), [first, call]);
  await scene.finish(call);
  await scene.finish(first);
  t.is(await scene.running(project), 1);
});

test('a project of weight 3 gets three places in a turn, others one, and their order stays', async (t) => {
  const scene = await openGate(t, { slots: 0, running: 100 });
  const all = projects(3);
  const [heavy = ''] = all;
  const owners = new Map<string, string>();
  scene.limits.set(heavy, { running: 100, waiting: 100, weight: 3 });
  for (const [nth, project] of all.entries()) {
    for (const id of await scene.admit(project, 7)) owners.set(id, ['h', '2', '3'][nth] ?? '');
  }
  await scene.beat(1);
  const order = (await runDry(scene)).map((id) => owners.get(id)).join('');
  t.is(order, 'hhh23hhh23h2323232323');
});

test('an organization has so many running over all its projects; others are not held up', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [a = '', b = '', c = '', other = ''] = projects(4);
  for (const project of [a, b, c]) {
    scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('org', 4) });
  }
  const mine = [...(await scene.admit(a, 6)), ...(await scene.admit(b, 3)), ...(await scene.admit(c, 2))];
  await scene.admit(other, 3);
  const running = async (): Promise<number[]> => Promise.all([a, b, c, other].map(scene.running));
  t.deepEqual(await running(), [4, 0, 0, 2]);
  t.deepEqual(await numbersIn(scene, 'orgs'), { org: 4 });
  const [place] = await scene.gate.places([{ id: mine[7] ?? '', type, projectId: b }]);
  t.is(place?.reason, 'organization_limit');
  for (const id of mine.slice(0, 3)) await scene.finish(id);
  t.deepEqual(await running(), [2, 1, 1, 2], 'the projects that waited get the places in turn');
  await drain(scene, async () => {
    const [x = 0, y = 0, z = 0] = await running();
    t.true(x + y + z <= 4);
  });
  t.is((await scene.handedOver()).length, 14);
  t.deepEqual(await numbersIn(scene, 'orgs'), {});
});

test('a raised cap lets waiting projects go at once, a lowered one none until enough have ended', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [a = '', b = ''] = projects(2);
  const set = async (running: number): Promise<void> => {
    for (const project of [a, b]) {
      scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('org', running) });
      await scene.gate.rulesChanged({ type, projectId: project });
    }
  };
  await set(2);
  const ids = [...(await scene.admit(a, 4)), ...(await scene.admit(b, 4))];
  t.deepEqual([await scene.running(a), await scene.running(b)], [2, 0]);
  await set(5);
  t.is((await scene.running(a)) + (await scene.running(b)), 5);
  await set(1);
  for (const id of ids.slice(0, 2)) await scene.finish(id);
  t.is((await scene.running(a)) + (await scene.running(b)), 3);
  await drain(scene, async () => {
    t.true((await scene.leases()).length <= 3);
  });
  t.is((await scene.handedOver()).length, 8);
});

test('a project that cannot use the room of its organization leaves it to the next', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [a = '', b = '', c = ''] = projects(3);
  for (const project of [a, b, c]) {
    scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('org', 1) });
  }
  const [first = ''] = await scene.admit(a, 1);
  await scene.admit(b, 1);
  const [last = ''] = await scene.admit(c, 1);
  scene.paused.add(b);
  await scene.gate.rulesChanged({ type });
  await scene.finish(first);
  t.is((await scene.handedOver()).at(-1), last);
});

test('a project that moves to another organization takes its leases along', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('one', 5) });
  await scene.admit(project, 3);
  scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('two', 5) });
  await scene.gate.rulesChanged({ type, projectId: project });
  t.deepEqual(await numbersIn(scene, 'orgs'), { two: 3 });
});

test('after Redis lost everything, the leases that are restored count for their organization', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [a = '', b = ''] = projects(2);
  for (const project of [a, b]) {
    scene.limits.set(project, { running: 5, waiting: 100, ...ofOrganization('org', 3) });
  }
  const ids = await scene.admit(a, 4);
  await scene.redis.unlink(...(await scene.redis.keys(`${keysOf(scene)}*`)), scene.shard.queue.toKey('wait'));
  await scene.shard.restore(
    2,
    ids.slice(0, 3).map((id) => ({ id, projectId: a })),
  );
  await scene.beat();
  await scene.admit(b, 2);
  t.is(await scene.running(b), 2, 'without the share of the other project nothing is known of its organization');
  await scene.admitOne(a, ids[3]);
  t.deepEqual(await numbersIn(scene, 'orgs'), { org: 5 });
  await scene.admit(b, 1);
  t.is(await scene.running(b), 2);
});

test('counts that went wrong beside processes of an earlier release are made anew', async (t) => {
  const scene = await openGate(t, { slots: 20 });
  const [project = ''] = projects(1);
  scene.limits.set(project, { running: 5, waiting: 100, kept: 1, ...ofOrganization('org', 9) });
  await scene.admitAwaited(project);
  await scene.admit(project, 2);
  await scene.redis.hset(`${keysOf(scene)}back`, project, 4);
  await scene.redis.hset(`${keysOf(scene)}orgs`, 'org', 9, 'gone', 3);
  await scene.shard.forgetIdle();
  t.deepEqual(await numbersIn(scene, 'back'), { [project]: 2 });
  t.deepEqual(await numbersIn(scene, 'orgs'), { org: 3 });
});
