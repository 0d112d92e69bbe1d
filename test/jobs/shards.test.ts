import test from 'ava';
import { newId } from '#lib/ids.ts';
import { shardOf } from '#queues/gate/queue-shards.ts';
import { inPart } from '#domain/jobs/queue-shards.ts';
import { openEngine, succeeded, testJobs } from '#test/support/engine.ts';

const shards = 4;

test('a project’s part is the same for Postgres as for the gate', async (t) => {
  const { db } = await openEngine(t);
  const ids = Array.from({ length: 200 }, () => newId());
  for (let index = 0; index < shards; index += 1) {
    const rows = await db.query<{ project_id: string }>(
      `select project_id from unnest($1::uuid[]) as ids (project_id) where ${inPart('$2', '$3')}`,
      [ids, shards, index],
    );
    t.deepEqual(
      rows.map((row) => row.project_id),
      ids.filter((id) => shardOf(id, shards) === index),
    );
  }
});

test('jobs of every shard run, and are tried again by the shard that they belong to', async (t) => {
  const scene = await openEngine(t, { PLINTH_QUEUE_SHARDS: String(shards) });
  const seen = new Map<string, number>();
  await scene.startWorker((_data, { jobId, attempt }) => {
    seen.set(jobId, attempt);
    return attempt === 1 ? Promise.reject(new Error('not at once')) : Promise.resolve(succeeded());
  });
  const ids = await Promise.all(Array.from({ length: 24 }, () => scene.accept(testJobs.steady)));
  for (const id of ids) t.like(await scene.rowWhen(id, 'succeeded'), { attempt: 2 });
  t.deepEqual(
    [...seen.values()],
    Array.from({ length: 24 }, () => 2),
  );
});
