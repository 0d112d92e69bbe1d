import test from 'ava';
import { type EngineScene, heldRuns, insertProject, openEngine, testJobs } from '#test/support/engine.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const { type } = testJobs.steady;

const gateKey = ({ config }: EngineScene, name: string): string =>
  `{${config.PLINTH_REDIS_PREFIX}:${type}}:gate:${name}`;

const epochOf = async ({ db }: EngineScene): Promise<number> => {
  const [shard] = await db.query<{ epoch: number }>('select epoch from queue_shards where name = $1', [type]);
  return shard?.epoch ?? 0;
};

for (const lost of [['lease'], ['run'], ['lease', 'run']]) {
  test(`when Redis loses ${lost.join(' and ')} while jobs run, the shard is restored and no limit is exceeded`, async (t) => {
    t.timeout(longTestMs);
    const scene = await openEngine(t);
    const projectId = await insertProject(scene.db);
    const held = heldRuns();
    await scene.startWorker(held.run);
    const ids: string[] = [];
    for (let i = 0; i < 2; i += 1) ids.push(await scene.accept(testJobs.steady, projectId));
    for (const id of ids) await scene.rowWhen(id, 'running');
    const before = await epochOf(scene);
    await scene.queues.redis.unlink(...lost.map((name) => gateKey(scene, name)));
    await until(async () => (await epochOf(scene)) > before);
    const [shard] = scene.queues.gate.shards(type);
    await until(async () => (await shard?.holders(ids))?.every(Boolean) === true);
    // The limit of the project is two, and both run still.
    const third = await scene.accept(testJobs.steady, projectId);
    t.is((await scene.row(third)).status, 'queued');
    t.is((await scene.queues.gate.stats(type)).leased, 2);
    held.release();
    await scene.rowWhen(third, 'succeeded');
  });
}
