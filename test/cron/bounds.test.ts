import { insertProject } from '#test/support/engine.ts';
import { tick } from '#domain/cron/tick.ts';
import { type CronScene, dueAgain, endJobs, inScene, insertSchedule, jobsOf, runsOf, timesOf } from './scene.ts';

const mib = 1024 * 1024;
const large = { type: 'sql', sql: `select '${'x'.repeat(65_000)}'` };

const bytesOf = async ({ db }: CronScene): Promise<number> => {
  const [row] = await db.query<{ bytes: number }>('select coalesce(sum(length(data)), 0)::bigint as bytes from jobs');
  return row?.bytes ?? 0;
};

/** As if a second had passed for what was put off to the next tick. */
const nextTick = async (scene: CronScene): Promise<number> => {
  await scene.db.query('update schedules set due_at = next_run_at where due_at > next_run_at');
  return (await tick(scene.deps)).started;
};

inScene('a project whose large schedules missed much has its share of a tick, others fire', async (t, scene) => {
  const missed = { schedule: '* * * * *', misfire: 'all', overlap: 'allow', dueFor: 3 * 3600, target: large };
  await Promise.all(Array.from({ length: 8 }, () => insertSchedule(scene, missed)));
  const other = await insertSchedule(scene, { projectId: await insertProject(scene.db, 'pro') });
  await tick(scene.deps);
  t.is((await jobsOf(scene, other)).length, 1);
  const bytes = await bytesOf(scene);
  t.true(bytes > mib && bytes < 2.2 * mib, `${bytes} bytes`);
});

inScene('what is left of a schedule is fired in later ticks: each once, the oldest first', async (t, scene) => {
  const id = await insertSchedule(scene, {
    schedule: '* * * * *',
    misfire: 'all',
    overlap: 'allow',
    dueFor: 80 * 60,
    target: large,
  });
  const { next_run_at: due } = await timesOf(scene, id);
  t.is((await tick(scene.deps)).started, 32);
  t.is((await tick(scene.deps)).started, 0);
  let started = 32;
  for (let fires = 1; fires > 0; started += fires) fires = await nextTick(scene);
  const instants = (await runsOf(scene, id)).map(({ fire_at: at }) => at.getTime());
  t.is(started, instants.length);
  t.deepEqual(
    instants,
    instants.map((_at, i) => Math.ceil((due?.getTime() ?? 0) / 60_000) * 60_000 + i * 60_000),
  );
  t.true(instants.length >= 79);
  t.true(((await timesOf(scene, id)).next_run_at?.getTime() ?? 0) > Date.now() - 60_000);
});

inScene('many projects with large schedules fire within one tick, in several passes', async (t, scene) => {
  const missed = { schedule: '* * * * *', misfire: 'all', overlap: 'allow', dueFor: 40 * 60, target: large };
  const ids: string[] = [];
  for (let i = 0; i < 6; i += 1) {
    ids.push(await insertSchedule(scene, { ...missed, projectId: await insertProject(scene.db, 'pro') }));
  }
  // A schedule is due again after a second: on a busy machine the same tick comes to it a second time.
  t.true((await tick(scene.deps)).started >= 6 * 32);
  for (const id of ids) t.true((await jobsOf(scene, id)).length >= 32);
});

/** Values that the database refuses, for a reason that is in the schedule. */
const refuse = async ({ db }: CronScene, mark: string): Promise<void> => {
  await db.query(`create function refuse() returns trigger language plpgsql as $$
    begin raise 'not this one'; end $$`);
  await db.query(`create trigger refuse before insert on jobs for each row
    when (position('${mark}' in new.data) > 0) execute function refuse()`);
};

const poison = { type: 'sql', sql: 'select poison' };

inScene('a schedule whose fire cannot be written is set aside, the others fire', async (t, scene) => {
  await refuse(scene, 'poison');
  const bad = await insertSchedule(scene, { target: poison, dueFor: 5 });
  const good = await Promise.all([1, 2, 3].map(() => insertSchedule(scene)));
  const { next_run_at: at } = await timesOf(scene, bad);
  t.is((await tick(scene.deps)).started, 3);
  for (const id of good) t.is((await jobsOf(scene, id)).length, 1);
  t.is(scene.admitted.length, 3);
  const [run] = await runsOf(scene, bad);
  t.like(run, { status: 'failed', job_id: null, reason: 'the run could not be written', fire_at: at ?? undefined });
  const { next_run_at: next, due_at: due } = await timesOf(scene, bad);
  t.deepEqual(next, at);
  t.true((due?.getTime() ?? 0) > Date.now() + 30_000);
  t.regex(scene.logged(), /a schedule could not be fired/);
});

inScene('a schedule that was set aside fires again when it can, without the fire that failed', async (t, scene) => {
  await refuse(scene, 'poison');
  const id = await insertSchedule(scene, { target: poison, dueFor: 5 });
  await tick(scene.deps);
  await scene.db.query('drop trigger refuse on jobs');
  t.is(await nextTick(scene), 0);
  await dueAgain(scene, id);
  t.is((await tick(scene.deps)).started, 1);
  t.deepEqual(
    (await runsOf(scene, id)).map(({ status }) => status),
    ['failed', 'started'],
  );
});

inScene('a run that waits and cannot be written fails, the others start', async (t, scene) => {
  const ids = await Promise.all([1, 2].map(() => insertSchedule(scene, { overlap: 'queue', dueFor: 9 })));
  const [bad = '', good = ''] = ids;
  await tick(scene.deps);
  for (const id of ids) await dueAgain(scene, id, 5);
  await tick(scene.deps);
  for (const id of ids) await endJobs(scene, id);
  await scene.db.transaction(
    (tx) => tx.query('update schedules set target = $2 where id = $1', [bad, JSON.stringify(poison)]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  await refuse(scene, 'poison');
  t.is((await tick(scene.deps)).started, 1);
  t.is((await jobsOf(scene, good)).length, 2);
  t.like((await runsOf(scene, bad)).at(-1), { status: 'failed', reason: 'the run could not be written' });
});
