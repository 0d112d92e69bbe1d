import test, { type ExecutionContext } from 'ava';
import { deleteBeyondQuota, foldStoredChanges } from '#domain/functions/stored.ts';
import { deleteOld, revive } from '#domain/jobs/changes.ts';
import { newId } from '#lib/ids.ts';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test, {
  settings: {
    PLINTH_FUNCTIONS_FREE: '3',
    PLINTH_CODE_BYTES: '5000',
    PLINTH_STORED_BYTES_FREE: '1000000',
    PLINTH_WAITING_BYTES_FREE: '50000',
  },
});

const quick = 'exports.handler = () => 1';

const usage = async ({ ask }: ProjectScene) => (await ask('GET', '/usage')).body;

const deployed = ({ ask }: ProjectScene, name: string, code = quick) =>
  ask('POST', '/functions', { body: { name, language: 'javascript', code } });

test('a project has as many functions as its plan gives, however many are deployed at once', async (t) => {
  const one = await scene(quick);
  const answers = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => deployed(one, name)));
  t.is(answers.filter(({ status }) => status === 201).length, 2);
  const refused = answers.find(({ status }) => status !== 201);
  t.is(refused?.status, 403);
  t.is(refused?.body.code, 'plan_limit_exceeded');
  t.deepEqual(refused?.body.details, { limit: 'functions', value: 3 });
  t.deepEqual((await usage(one)).functions, { used: 3, limit: 3 });
  t.is((await one.ask('DELETE', `/functions/${one.fn.id}`)).status, 204);
  t.is((await deployed(one, 'g')).status, 201);
  await one.ask('PATCH', '', { body: { plan: 'enterprise' } });
  t.is((await deployed(one, 'h')).status, 201);
  t.deepEqual((await usage(one)).functions, { used: 4, limit: null });
});

test('code is limited in bytes, and not in characters', async (t) => {
  const one = await scene(quick);
  const refused = await deployed(one, 'large', `//${'ä'.repeat(2600)}\n${quick}`);
  t.is(refused.status, 400);
  t.deepEqual(refused.body.details, [{ path: 'code', message: 'is longer than 5000 bytes' }]);
  t.is((await deployed(one, 'fits', `//${'ä'.repeat(2400)}\n${quick}`)).status, 201);
});

/** A job that waits for an hour. */
const waits = ({ project }: ProjectScene, bytes: number) =>
  platform().db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, next_run_at)
     values ($1, $2, 'function.invoke', 'queued', repeat('x', $3), 'r', now() + interval '1 hour')`,
    [newId(), project.id, bytes],
  );

test('large payloads are refused while too many bytes wait, and nothing of them is kept', async (t) => {
  const one = await scene(quick);
  await waits(one, 40_000);
  t.deepEqual((await usage(one)).waiting_bytes, { used: 40_000, limit: 50_000 });
  const invoke = (length: number, letter = 'y') =>
    one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: letter.repeat(length) } });
  const refused = await invoke(20_000);
  t.is(refused.status, 429);
  t.is(refused.body.code, 'queue_full');
  t.truthy(refused.headers.get('retry-after'));
  t.is((await invoke(5000, '€')).status, 429, 'bytes count, and not letters');
  t.is((await usage(one)).waiting_bytes.used, 40_000);
  t.is((await invoke(100)).status, 200, 'as many short ones as may wait fit into what the plan gives');
  await platform().db.query('delete from jobs where project_id = $1 and next_run_at is not null', [one.project.id]);
  t.is((await invoke(20_000)).status, 200);
  t.is((await usage(one)).waiting_bytes.used, 0);
});

const storedRows = async ({ project }: ProjectScene): Promise<number> => {
  const [row] = await platform().db.query<{ bytes: number }>(
    `select ((select coalesce(sum(octet_length(data) + coalesce(octet_length(logs), 0) + coalesce(octet_length(log_tail), 0)
         + coalesce(octet_length(error), 0)), 0) from invocations where project_id = $1)
       + (select coalesce(sum(octet_length(data) + coalesce(octet_length(result), 0)), 0) from jobs
          where project_id = $1 and finished_at is not null
            and octet_length(data) + coalesce(octet_length(result), 0) >= 2000)
       + (select coalesce(sum(octet_length(v.code) + octet_length(v.compiled)), 0)
          from function_versions v join functions f on f.id = v.function_id where f.project_id = $1))::float8 as bytes`,
    [project.id],
  );
  return row?.bytes ?? 0;
};

/** Runs it so often with 20 KB, which are kept twice: with the job and with the record of the run. */
const runs = async (t: ExecutionContext, one: ProjectScene, times: number): Promise<string[]> => {
  const ids: string[] = [];
  for (let i = 0; i < times; i += 1) {
    const path = `/functions/${one.fn.id}/invoke`;
    const { status, body } = await one.ask('POST', path, { body: { payload: 'y'.repeat(20_000) } });
    t.is(status, 200);
    ids.push(body.invocation_id);
  }
  await until(async () => (await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.total === times);
  return ids;
};

test.serial('what is stored is counted exactly, before and after it is added up, deletions included', async (t) => {
  const one = await scene(quick);
  await runs(t, one, 3);
  for (const n of [1, 2, 3]) await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { code: `${quick}${n}` } });
  const { db } = platform();
  const present = await storedRows(one);
  t.true(present > 120_000);
  t.deepEqual((await usage(one)).stored_bytes, { used: present, limit: 1_000_000 });
  while ((await foldStoredChanges(db, 100)) > 0);
  t.is((await usage(one)).stored_bytes.used, present);
  await db.query('delete from invocations where project_id = $1', [one.project.id]);
  await db.query('delete from jobs where project_id = $1', [one.project.id]);
  await one.ask('DELETE', `/functions/${one.fn.id}`);
  t.is((await usage(one)).stored_bytes.used, 0);
});

test.serial(
  'beyond the quota the oldest runs go first, then the oldest versions; other projects keep theirs',
  async (t) => {
    const [one, other] = [await scene(quick), await scene(quick)];
    const { db } = platform();
    const ids = await runs(t, one, 5);
    await runs(t, other, 1);
    for (const n of [1, 2]) await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { code: `${quick}${n}` } });
    while ((await foldStoredChanges(db, 100)) > 0);
    const others = await usage(other);
    const kept = async (): Promise<string[]> => {
      const rows = await db.query<{ id: string }>('select id from invocations where project_id = $1 order by id', [
        one.project.id,
      ]);
      return rows.map(({ id }) => id);
    };
    const quotas = { free: (await storedRows(one)) - 41_000, pro: 0, enterprise: 0 };
    t.is(await deleteBeyondQuota(db, quotas, 100), 2);
    t.deepEqual(await kept(), ids.slice(2));
    t.deepEqual(await db.query('select id from jobs where id = any($1::uuid[])', [ids.slice(0, 2)]), []);
    t.is(await deleteBeyondQuota(db, quotas, 100), 0);
    const none = { free: 0, pro: 0, enterprise: 0 };
    await other.ask('PATCH', '', { body: { plan: 'enterprise' } });
    while ((await deleteBeyondQuota(db, { ...none, enterprise: 1e9 }, 100)) > 0);
    t.deepEqual(await kept(), []);
    t.is(await storedRows(one), 0);
    t.is((await usage(other)).stored_bytes.used, others.stored_bytes.used);
    t.is((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } })).status, 200);
  },
);

const jobsOf = async ({ project }: ProjectScene): Promise<string[]> => {
  const rows = await platform().db.query<{ id: string }>(
    `select id from jobs where project_id = $1 and type <> 'project.provision' order by id`,
    [project.id],
  );
  return rows.map(({ id }) => id);
};

const storedOf = async (one: ProjectScene): Promise<number> => (await usage(one)).stored_bytes.used;

/** A job with a payload of two characters. Of a type without workers: they would end what none of them runs. */
const addJob = async ({ project }: ProjectScene, type: string, status = 'running'): Promise<string> => {
  const id = newId();
  await platform().db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, started_at, run_id, next_run_at)
     values ($1, $2, $3, $4, '{}', 'r', now(), $1, now() + interval '1 hour')`,
    [id, project.id, type, status],
  );
  return id;
};

/** Ends it as workers do, with a result of so many bytes. */
const endJob = (id: string, bytes: number, status = 'succeeded') =>
  platform().db.query(
    `select end_jobs(array[$1::uuid], array[$1::uuid], array[$3], array[repeat('x', $2::int)], array[null]::text[],
       array[null]::text[], array[now()], array[null]::text[], array[null]::int[])`,
    [id, bytes, status],
  );

const withoutCode = async (t: ExecutionContext): Promise<ProjectScene> => {
  const one = await scene(quick);
  t.is((await one.ask('DELETE', `/functions/${one.fn.id}`)).status, 204);
  t.is(await storedOf(one), 0);
  return one;
};

test.serial('what a function returned counts for as long as its job is kept', async (t) => {
  const one = await scene("exports.handler = () => 'z'.repeat(30000)");
  const before = await storedOf(one);
  t.is((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } })).status, 200);
  await until(async () => (await storedOf(one)) - before > 30_000);
  t.is(await storedOf(one), await storedRows(one));
  await platform().db.query('delete from invocations where project_id = $1', [one.project.id]);
  t.true((await storedOf(one)) - before >= 30_000);
});

test.serial('a job counts from its end on, no more while it is retried, and no more once it is deleted', async (t) => {
  const one = await withoutCode(t);
  const { db } = platform();
  const [failed, small] = [await addJob(one, 'test.a'), await addJob(one, 'test.a')];
  t.is(await storedOf(one), 0);
  await endJob(failed, 50_000, 'failed');
  await endJob(small, 1000);
  t.is(await storedOf(one), 50_002, 'small ones are left to the limits of what runs');
  t.truthy(await revive(db, one.project.id, failed));
  t.is(await storedOf(one), 0);
  await db.query("update jobs set status = 'running', run_id = id where id = $1", [failed]);
  await endJob(failed, 70_000, 'failed');
  t.is(await storedOf(one), 70_002);
  await db.query("update jobs set finished_at = now() - interval '20 days' where id = $1", [failed]);
  t.is(await storedOf(one), 70_002);
  await deleteOld(db, { succeededHours: 24, failedDays: 14, max: 100 });
  t.deepEqual(await jobsOf(one), [small]);
  t.is(await storedOf(one), 0);
});

test.serial('beyond the quota the oldest ended jobs of all types go, and none that waits or runs', async (t) => {
  const one = await withoutCode(t);
  const { db } = platform();
  await one.ask('PATCH', '', { body: { plan: 'pro' } });
  const waits = await addJob(one, 'test.a', 'queued');
  const runs = await addJob(one, 'test.a');
  await db.query("update jobs set data = repeat('x', 900000) where id = any($1::uuid[])", [[waits, runs]]);
  const ended: string[] = [];
  for (const type of ['test.a', 'test.b', 'test.c', 'test.d']) {
    const id = await addJob(one, type);
    await endJob(id, 10_000);
    ended.push(id);
  }
  while ((await foldStoredChanges(db, 100)) > 0);
  t.is(await storedOf(one), 40_008);
  const quotas = { free: 1e9, pro: 25_000, enterprise: 1e9 };
  // As two workers would that sweep at the same time.
  const gone = await Promise.all([deleteBeyondQuota(db, quotas, 100), deleteBeyondQuota(db, quotas, 100)]);
  t.is(gone[0] + gone[1], 2);
  t.deepEqual(await jobsOf(one), [waits, runs, ...ended.slice(2)]);
  t.is(await storedOf(one), 20_004);
  for (let n = 1; n > 0;) n = await deleteBeyondQuota(db, { ...quotas, pro: 0 }, 1);
  t.deepEqual(await jobsOf(one), [waits, runs]);
  t.is(await storedOf(one), 0);
});

test.serial('what was deleted since the last sum counts: nothing more goes than what is too much', async (t) => {
  const one = await withoutCode(t);
  const { db } = platform();
  await one.ask('PATCH', '', { body: { plan: 'pro' } });
  const [first, second] = [await addJob(one, 'test.a'), await addJob(one, 'test.a')];
  for (const id of [first, second]) await endJob(id, 10_000);
  while ((await foldStoredChanges(db, 100)) > 0);
  await db.query('delete from jobs where id = $1', [second]);
  t.is(await deleteBeyondQuota(db, { free: 1e9, pro: 15_000, enterprise: 1e9 }, 100), 0);
  t.deepEqual(await jobsOf(one), [first]);
});
