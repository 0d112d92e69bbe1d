import test from 'ava';
import { newId } from '#lib/ids.ts';
import { openGate, projects, type } from './scene.ts';

/** Bytes of Redis that lie below a prefix. */
const used = async ({ redis, prefix }: Awaited<ReturnType<typeof openGate>>): Promise<number> => {
  let bytes = 0;
  for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1000 })) {
    for (const key of keys as string[]) bytes += Number(await redis.memory('USAGE', key, 'SAMPLES', 0));
  }
  return bytes;
};

test('a waiting job takes at most 1 KB of Redis, in one queue or in many', async (t) => {
  for (const [owners, each] of [
    [1, 2000],
    [500, 4],
  ] as const) {
    const scene = await openGate(t, { running: 0, waiting: 100_000 });
    const before = await used(scene);
    await Promise.all(projects(owners).map((project) => scene.admit(project, each)));
    t.is((await scene.gate.stats(type)).waiting, 2000);
    const perJob = ((await used(scene)) - before) / 2000;
    t.log(`${owners} projects: ${Math.round(perJob)} bytes for each waiting job`);
    t.true(perJob <= 1024, String(perJob));
  }
});

test('jobs spread over four shards by their project; each shard keeps its own share', async (t) => {
  const scene = await openGate(t, { shardCount: 4, running: 2, slots: 10 });
  const all = projects(80);
  const sent = new Map<string, string[]>();
  for (const project of all) sent.set(project, await scene.admit(project, 3));
  const shards = scene.gate.shards(type);
  t.deepEqual(
    shards.map(({ shard }) => shard.name),
    ['test.job.1of4', 'test.job.2of4', 'test.job.3of4', 'test.job.4of4'],
  );
  const running = await Promise.all(shards.map((shard) => shard.inspect.running()));
  t.true(running.every((own) => Object.keys(own).length > 0));
  const owners = running.flatMap((own) => Object.keys(own));
  t.is(new Set(owners).size, owners.length, 'a project is in one shard');
  for (const own of running) for (const count of Object.values(own)) t.true(Number(count) <= 2);
  const stats = await scene.gate.stats(type);
  t.is(stats.waiting + stats.leased, 240);
  t.is(stats.workers.length, 1, 'a worker of four shards is one worker');
  const loads = await scene.gate.projects(type, 5);
  t.is(loads.length, 5);
  // Asked for all at once, each is looked for in its own shard.
  const refs = all.flatMap((projectId) => (sent.get(projectId) ?? []).map((id) => ({ id, type, projectId })));
  const places = await scene.gate.places([...refs, { id: newId(), type, projectId: all[0] ?? '' }]);
  t.is(places.filter(({ state }) => state === 'absent').length, 1);
  t.is(places.filter(({ state }) => state === 'handed over').length, stats.leased);
});

test('every key of a shard has the same hash tag, and each shard another one', async (t) => {
  const scene = await openGate(t, { shardCount: 4 });
  await Promise.all(projects(40).map((project) => scene.admit(project, 4)));
  const tags = new Set<string>();
  for await (const keys of scene.redis.scanStream({ match: `*${scene.prefix}*`, count: 1000 })) {
    for (const key of keys as string[]) tags.add(/\{[^}]+\}/.exec(key)?.[0] ?? key);
  }
  t.deepEqual(
    [...tags].toSorted(),
    [1, 2, 3, 4].map((shardIndex) => `{${scene.prefix}:test.job.${shardIndex}of4}`),
  );
});
