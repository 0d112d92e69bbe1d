import { insertProject } from '#test/support/engine.ts';
import { lockSchedule } from '#domain/cron/store.ts';
import { tick } from '#domain/cron/tick.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { asAdmin } from '#test/support/databases.ts';
import { type CronScene, endJobs, inScene, insertFunction, insertSchedule, jobsOf, runsOf, timesOf } from './scene.ts';

inScene('a schedule that is due makes one run and one job, and moves on', async (t, scene) => {
  const sql = { type: 'sql', sql: 'select 1' };
  const id = await insertSchedule(scene, { target: sql, payload: '9007199254740995' });
  const { next_run_at: fireAt } = await timesOf(scene, id);
  t.is((await tick(scene.deps)).started, 1);
  const [run] = await runsOf(scene, id);
  const [job] = await jobsOf(scene, id);
  t.like(run, { status: 'started', reason: null, fire_at: fireAt ?? undefined });
  t.like(job, { type: 'cron.fire', status: 'queued', request_id: `cron-${run?.id}` });
  t.deepEqual(JSON.parse(job?.data ?? ''), {
    schedule_id: id,
    run_id: run?.id,
    target: sql,
    payload: '9007199254740995',
  });
  t.deepEqual(scene.admitted, [{ id: job?.id, type: 'cron.fire', projectId: scene.projectId, capped: false }]);
  const { next_run_at: next, due_at: due } = await timesOf(scene, id);
  t.true((next?.getTime() ?? 0) > Date.now());
  t.deepEqual(due, next);
  t.is((await tick(scene.deps)).started, 0);
});

inScene('what is not due yet, or disabled, does not fire', async (t, scene) => {
  const later = await insertSchedule(scene, { dueFor: -60 });
  const disabled = await insertSchedule(scene);
  await scene.db.query('update schedules set next_run_at = null, due_at = null where id = $1', [disabled]);
  await tick(scene.deps);
  t.deepEqual([...(await runsOf(scene, later)), ...(await runsOf(scene, disabled))], []);
});

inScene('a function is run in its present version', async (t, scene) => {
  const function_id = await insertFunction(scene);
  const id = await insertSchedule(scene, { target: { type: 'function', function_id }, payload: '{"a":1}' });
  await tick(scene.deps);
  const [job] = await jobsOf(scene, id);
  t.is(job?.type, 'function.invoke');
  t.deepEqual(JSON.parse(job?.data ?? ''), { function_id, version: 7, trigger: 'cron', payload: '{"a":1}' });
});

inScene('a function that was deleted, or is another project’s, makes a failed run without a job', async (t, scene) => {
  const gone = await insertSchedule(scene, { target: { type: 'function', function_id: crypto.randomUUID() } });
  const target = { type: 'function', function_id: await insertFunction(scene) };
  const foreign = await insertSchedule(scene, { target, projectId: await insertProject(scene.db, 'pro') });
  await tick(scene.deps);
  for (const id of [gone, foreign]) {
    const [run] = await runsOf(scene, id);
    t.like(run, { status: 'failed', job_id: null, reason: 'the function was deleted' });
  }
  t.deepEqual(scene.admitted, []);
});

inScene('many ticks at once fire each schedule once', async (t, scene) => {
  const ids = await Promise.all(Array.from({ length: 450 }, () => insertSchedule(scene)));
  const ticked = await Promise.all(Array.from({ length: 5 }, () => tick(scene.deps)));
  // Schedules that one tick had locked are left to the next tick.
  const rest = await tick(scene.deps);
  t.is(
    [...ticked, rest].reduce((sum, { started }) => sum + started, 0),
    ids.length,
  );
  const [count] = await scene.db.query<{ jobs: number; runs: number }>(
    'select (select count(*) from jobs) as jobs, (select count(*) from schedule_runs) as runs',
  );
  t.deepEqual(count, { jobs: ids.length, runs: ids.length });
  t.is(new Set(scene.admitted.map(({ id }) => id)).size, ids.length);
});

inScene('a schedule that is being changed is left to a later tick, and holds up no other', async (t, scene) => {
  const held = await insertSchedule(scene, { dueFor: 5 });
  const free = await insertSchedule(scene);
  await scene.db.transaction(async (tx) => {
    await lockSchedule(tx, scene.projectId, held);
    t.is((await tick(scene.deps)).started, 1);
  });
  t.is((await jobsOf(scene, free)).length, 1);
  t.deepEqual(await runsOf(scene, held), []);
  t.is((await tick(scene.deps)).started, 1);
});

inScene('a fire that was made is not made again, even when its time is set back', async (t, scene) => {
  const id = await insertSchedule(scene);
  const { next_run_at: at } = await timesOf(scene, id);
  await tick(scene.deps);
  await endJobs(scene, id);
  await scene.db.query('update schedules set next_run_at = $2, due_at = $2 where id = $1', [id, at]);
  t.is((await tick(scene.deps)).started, 0);
  t.is((await jobsOf(scene, id)).length, 1);
  t.true(((await timesOf(scene, id)).next_run_at?.getTime() ?? 0) > Date.now());
});

/** The same database, but the server ends the connection of a transaction when it comes to that statement. */
const killedAt = (scene: CronScene, statement: string): ControlDb => ({
  ...scene.db,
  transaction: (work, settings) =>
    scene.db.transaction(
      (tx) =>
        work({
          ...tx,
          query: async (sql, values, name) => {
            if (name === statement) {
              const [row] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
              await asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1, 5000)', [row?.pid]));
            }
            return tx.query(sql, values, name);
          },
        }),
      settings,
    ),
});

for (const statement of ['cron-facts', 'insert-runs', 'insert-jobs', 'cron-move-on']) {
  inScene(`a tick that is killed at ${statement} leaves nothing, and the next one fires`, async (t, scene) => {
    const id = await insertSchedule(scene);
    await t.throwsAsync(tick({ ...scene.deps, db: killedAt(scene, statement) }));
    t.deepEqual(await runsOf(scene, id), []);
    t.deepEqual(scene.admitted, []);
    t.is((await tick(scene.deps)).started, 1);
    t.is((await jobsOf(scene, id)).length, 1);
  });
}

inScene('a gate that is away loses no fire and repeats none', async (t, scene) => {
  const id = await insertSchedule(scene);
  const gate = { admit: () => Promise.reject(new Error('Connection is closed.')) };
  t.is((await tick({ ...scene.deps, gate })).started, 1);
  t.regex(scene.logged(), /wait for the reconciler/);
  t.is((await tick(scene.deps)).started, 0);
  t.like((await jobsOf(scene, id))[0], { status: 'queued' });
});
