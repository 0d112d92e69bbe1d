import { sweepScheduleRuns } from '#domain/cron/runs.ts';
import { upcomingFires } from '#domain/ops/trouble.ts';
import { tick } from '#domain/cron/tick.ts';
import {
  type CronScene,
  dueAgain,
  endJobs,
  inScene,
  insertSchedule,
  jobsOf,
  runsOf,
  setProject,
  timesOf,
} from './scene.ts';

const statuses = async (scene: CronScene, id: string): Promise<string[]> =>
  (await runsOf(scene, id)).map(({ status }) => status);

inScene(
  'overlap skip: the next fire is listed as skipped until the job of the one before has ended',
  async (t, scene) => {
    const id = await insertSchedule(scene, { dueFor: 5 });
    await tick(scene.deps);
    await dueAgain(scene, id, 3);
    await tick(scene.deps);
    t.deepEqual(await statuses(scene, id), ['started', 'skipped']);
    await endJobs(scene, id, 'failed');
    await dueAgain(scene, id, 1);
    await tick(scene.deps);
    t.deepEqual(await statuses(scene, id), ['started', 'skipped', 'started']);
  },
);

inScene('overlap queue: fires wait and start one after another, in order', async (t, scene) => {
  const id = await insertSchedule(scene, { overlap: 'queue', dueFor: 9 });
  await tick(scene.deps);
  for (const seconds of [7, 5]) {
    await dueAgain(scene, id, seconds);
    await tick(scene.deps);
  }
  t.deepEqual(await statuses(scene, id), ['started', 'waiting', 'waiting']);
  t.is((await tick(scene.deps)).started, 0);
  await endJobs(scene, id);
  t.is((await tick(scene.deps)).started, 1);
  t.deepEqual(await statuses(scene, id), ['started', 'started', 'waiting']);
  await endJobs(scene, id);
  await Promise.all([tick(scene.deps), tick(scene.deps), tick(scene.deps)]);
  t.is((await jobsOf(scene, id)).length, 3);
  t.is(scene.admitted.length, 3);
});

inScene('overlap queue: what waits starts before what is due now', async (t, scene) => {
  const id = await insertSchedule(scene, { overlap: 'queue', dueFor: 9 });
  await tick(scene.deps);
  await dueAgain(scene, id, 7);
  await tick(scene.deps);
  await endJobs(scene, id);
  await dueAgain(scene, id, 5);
  await tick(scene.deps);
  t.deepEqual(await statuses(scene, id), ['started', 'started', 'waiting']);
});

inScene('overlap allow: fires start beside each other', async (t, scene) => {
  const id = await insertSchedule(scene, { overlap: 'allow', dueFor: 9 });
  await tick(scene.deps);
  await dueAgain(scene, id, 5);
  await tick(scene.deps);
  t.deepEqual(await statuses(scene, id), ['started', 'started']);
});

inScene('misfire all: what was missed is caught up with, at most 100', async (t, scene) => {
  const given = { schedule: '* * * * *', misfire: 'all', overlap: 'allow', dueFor: 3 * 3600 };
  const id = await insertSchedule(scene, given);
  await tick(scene.deps);
  t.is((await jobsOf(scene, id)).length, 100);
  t.is((await tick(scene.deps)).started, 0);
});

// The fires of a schedule at full minutes.
const betweenFires = 0.5;

inScene('overlap allow: above 100 runs that have not ended a fire is listed as skipped', async (t, scene) => {
  const given = { schedule: '* * * * *', misfire: 'all', overlap: 'allow', dueFor: 3 * 3600 };
  const id = await insertSchedule(scene, given);
  await tick(scene.deps);
  await dueAgain(scene, id, betweenFires);
  t.is((await tick(scene.deps)).started, 0);
  const skipped = (await runsOf(scene, id)).filter(({ status }) => status === 'skipped');
  t.is(skipped.length, 1);
  t.like(skipped[0], { reason: '100 runs of the schedule have not ended' });
  await endJobs(scene, id);
  await dueAgain(scene, id, betweenFires);
  await scene.db.query(`delete from schedule_runs where status = 'skipped'`);
  t.is((await tick(scene.deps)).started, 1);
});

inScene('misfire skip: what was missed is listed once and starts nothing', async (t, scene) => {
  const id = await insertSchedule(scene, { schedule: '0 0 1 1 *', misfire: 'skip', dueFor: 3600 });
  t.is((await tick(scene.deps)).started, 0);
  t.deepEqual(await statuses(scene, id), ['skipped']);
});

inScene('a project that is not active takes no fires; active again, its misfire rule applies', async (t, scene) => {
  const id = await insertSchedule(scene, { schedule: '* * * * *', dueFor: 1800 });
  await setProject(scene, scene.projectId, 'paused');
  await tick(scene.deps);
  t.deepEqual(await runsOf(scene, id), []);
  // Out of the tick's sight, so that it costs nothing.
  t.is((await timesOf(scene, id)).due_at, null);
  t.deepEqual(await upcomingFires(scene.db, 10), []);
  await setProject(scene, scene.projectId, 'active');
  t.is((await tick(scene.deps)).started, 1);
  t.is((await runsOf(scene, id)).length, 1);
});

inScene('runs that wait stay while their project is not active', async (t, scene) => {
  const id = await insertSchedule(scene, { overlap: 'queue', dueFor: 9 });
  await tick(scene.deps);
  await dueAgain(scene, id, 5);
  await tick(scene.deps);
  await endJobs(scene, id);
  await setProject(scene, scene.projectId, 'paused');
  t.is((await tick(scene.deps)).started, 0);
  await setProject(scene, scene.projectId, 'active');
  t.is((await tick(scene.deps)).started, 1);
});

inScene('a project that was deleted takes no fires', async (t, scene) => {
  const id = await insertSchedule(scene);
  await scene.db.transaction((tx) => tx.query(`update projects set status = 'deleting', deleted_at = now()`), {
    'plinth.actor': '{"type":"system"}',
  });
  await tick(scene.deps);
  t.deepEqual(await runsOf(scene, id), []);
});

inScene('a smaller plan’s least interval binds schedules made under a larger one', async (t, scene) => {
  const id = await insertSchedule(scene, { schedule: '*/10 * * * * *', dueFor: 0 });
  await setProject(scene, scene.projectId, 'active', 'free');
  await tick(scene.deps);
  const [run] = await runsOf(scene, id);
  const { next_run_at: next } = await timesOf(scene, id);
  t.true((next?.getTime() ?? 0) - (run?.fire_at.getTime() ?? 0) >= 60_000);
});

inScene('a schedule that cannot be read says so, stops, and holds up no other', async (t, scene) => {
  const broken = await insertSchedule(scene, { timezone: 'Mars/Olympus', dueFor: 5 });
  const sound = await insertSchedule(scene);
  t.is((await tick(scene.deps)).started, 1);
  t.like((await runsOf(scene, broken))[0], { status: 'skipped', reason: 'the schedule cannot be read any more' });
  t.deepEqual(await timesOf(scene, broken), { next_run_at: null, due_at: null });
  t.deepEqual(await statuses(scene, sound), ['started']);
});

inScene('the end of a job is kept in its run, and runs of more than 14 days ago go', async (t, scene) => {
  const id = await insertSchedule(scene, { overlap: 'allow', dueFor: 9 });
  await tick(scene.deps);
  await endJobs(scene, id, 'dead');
  await dueAgain(scene, id, 5);
  await tick(scene.deps);
  await sweepScheduleRuns(scene.db);
  t.deepEqual(await statuses(scene, id), ['dead', 'started']);
  await scene.db.query('delete from jobs');
  await sweepScheduleRuns(scene.db);
  t.deepEqual(await statuses(scene, id), ['dead', 'expired']);
  await scene.db.query(`update schedule_runs set created_at = now() - interval '15 days' where status = 'dead'`);
  await sweepScheduleRuns(scene.db);
  t.deepEqual(await statuses(scene, id), ['expired']);
});

inScene('what fires next is listed soonest first', async (t, scene) => {
  const later = await insertSchedule(scene, { dueFor: -120 });
  const sooner = await insertSchedule(scene, { dueFor: -60 });
  const upcoming = await upcomingFires(scene.db, 10);
  t.deepEqual(
    upcoming.map(({ schedule_id }) => schedule_id),
    [sooner, later],
  );
  const [project] = await scene.db.query('select ref, name from projects where id = $1', [scene.projectId]);
  t.deepEqual({ ref: upcoming[0]?.project_ref, name: upcoming[0]?.project_name }, project);
  t.is((await upcomingFires(scene.db, 1)).length, 1);
});

inScene('operators see what a schedule says, how it ended last, and since when it is overdue', async (t, scene) => {
  const late = await insertSchedule(scene, { dueFor: 90 });
  const fine = await insertSchedule(scene, { dueFor: -60 });
  await scene.db.query(
    `insert into schedule_runs (id, schedule_id, fire_at, trigger, status, error_code, error_message)
     values (gen_random_uuid(), $1, now() - interval '2 min', 'schedule', 'succeeded', null, null),
       (gen_random_uuid(), $1, now() - interval '1 min', 'schedule', 'failed', 'timeout', 'It took too long.')`,
    [late],
  );
  const [first, second] = await upcomingFires(scene.db, 10);
  t.is(first?.schedule_id, late);
  t.true((first?.overdue_seconds ?? 0) >= 90);
  t.like(first?.last_run, { status: 'failed', error_code: 'timeout', error_message: 'It took too long.' });
  t.truthy(first?.schedule);
  t.like(second, { schedule_id: fine, overdue_seconds: null, last_run: null });
});
