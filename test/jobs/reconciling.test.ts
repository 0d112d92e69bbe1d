import test from 'ava';
import { firstIdAt, newId } from '#lib/ids.ts';
import { type EngineScene, insertProject, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import type { ShardContext } from '#workers/shard-leader/context.ts';
import { createReconciler } from '#workers/shard-leader/reconcile.ts';

const { type } = testJobs.steady;
const minuteMs = 60_000;

const contextOf = ({ db, log, queues }: EngineScene): ShardContext => {
  const [gate] = queues.gate.shards(type);
  if (gate === undefined) throw new Error('there is no queue shard');
  const { rules, outcomes, signals } = queues;
  const processor = { run: () => Promise.resolve(succeeded()) };
  return { db, log, gate, rules, job: testJobs.steady, processor, outcomes, signals, part: { index: 0, count: 1 } };
};

/** Waiting jobs whose ids are of that minute, unknown to the gate. */
const backlog = async ({ db }: EngineScene, minutesAgo: number, count: number): Promise<void> => {
  const from = firstIdAt(Date.now() - minutesAgo * minuteMs).slice(0, 24);
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id)
     select ($1 || lpad(to_hex(n), 12, '0'))::uuid, $2, $3, 'queued', 'null', 'r' from generate_series(1, $4) as n`,
    [from, await insertProject(db), type, count],
  );
};

const waiting = async (scene: EngineScene): Promise<number> => (await scene.queues.gate.stats(type)).waiting;

const snapshotOf = (shard: ShardContext) =>
  shard.gate.beat({
    workerId: newId(),
    slots: 0,
    info: JSON.stringify({ name: 'w', running: 0, startedAt: 0 }),
  });

const never = new AbortController().signal;

test('a backlog that is older than a minute is admitted whole, round by round, by a leader that is new', async (t) => {
  const scene = await openEngine(t);
  const shard = contextOf(scene);
  await backlog(scene, 10, 2500);
  await backlog(scene, 90, 2500);
  // As after a change of the leader in the middle of the scan: nobody remembers how far it came.
  const reconciler = createReconciler(shard, never, { followMs: 0, recompareMs: 0 });
  for (let round = 1; round <= 5; round += 1) {
    await reconciler.round(await snapshotOf(shard), true);
    t.is(await waiting(scene), round * 1000, 'each round has time for one page and goes on where the last one stopped');
  }
});

test('one job that the gate lost among 20,000 that it knows is found within few rounds', async (t) => {
  const scene = await openEngine(t);
  const shard = contextOf(scene);
  await backlog(scene, 10, 20_000);
  const reconciler = createReconciler(shard, never);
  await reconciler.everything();
  t.is(await waiting(scene), 20_000);
  const [last] = await scene.db.query<{ id: string; project_id: string }>(
    'select id, project_id from jobs order by id desc limit 1',
  );
  await shard.gate.withdraw([{ id: last?.id ?? '', projectId: last?.project_id ?? '' }]);
  t.is(await waiting(scene), 19_999);
  const fresh = createReconciler(shard, never);
  let rounds = 0;
  while (rounds < 8 && (await waiting(scene)) < 20_000) {
    await fresh.round(await snapshotOf(shard), true);
    rounds += 1;
  }
  t.is(await waiting(scene), 20_000, `after ${rounds} rounds`);
});

test('what was compared once is compared again, over and over', async (t) => {
  const scene = await openEngine(t);
  const shard = contextOf(scene);
  await backlog(scene, 10, 1500);
  const reconciler = createReconciler(shard, never, { followMs: 60_000, recompareMs: 0 });
  await reconciler.round(await snapshotOf(shard), true);
  t.is(await waiting(scene), 1500);
  const rows = await scene.db.query<{ id: string; project_id: string }>('select id, project_id from jobs order by id');
  for (const lost of [rows.at(-1), rows.at(0)]) {
    await shard.gate.withdraw([{ id: lost?.id ?? '', projectId: lost?.project_id ?? '' }]);
    for (let round = 0; round < 3; round += 1) await reconciler.round(await snapshotOf(shard), true);
    t.is(await waiting(scene), 1500);
  }
});
