import test from 'ava';
import { until } from '#test/support/until.ts';
import { useJobsApi } from './scene.ts';

const { platform, scene, hold } = useJobsApi(test);

type Scene = Awaited<ReturnType<typeof scene>>;

const enqueue = ({ ask, fn }: Scene, body: unknown) => ask('POST', `/functions/${fn.id}/jobs`, { body });

const resultOf = async ({ jobWhen }: Scene, id: string) => (await jobWhen(id, 'succeeded')).result.result;

test.serial('a job runs with its exact payload, and one of a thousand is one of a thousand', async (t) => {
  const s = await scene(
    'export const handler = (payload, sdk) => ({ n: typeof payload.n, by: sdk.caller.kind, attempt: sdk.attempt });',
  );
  const raw = '{"payload": {"n": 12345678901234567890}}';
  const { status, body } = await s.ask('POST', `/functions/${s.fn.id}/jobs`, { raw });
  t.is(status, 202);
  t.is(body.jobs[0].status, 'queued');
  await s.jobWhen(body.jobs[0].job_id, 'succeeded');
  t.deepEqual(await resultOf(s, body.jobs[0].job_id), { n: 'number', by: 'dashboard', attempt: 1 });
  const [kept] = await platform().db.query<{ data: string }>('select data from jobs where id = $1', [
    body.jobs[0].job_id,
  ]);
  t.true(kept?.data.includes('12345678901234567890'));

  await hold('pause');
  const many = await enqueue(s, { jobs: Array.from({ length: 1000 }, (_, n) => ({ payload: n })) });
  t.is(many.status, 202);
  t.is(new Set(many.body.jobs.map(({ job_id: id }: { job_id: string }) => id)).size, 1000);
  const tooMany = await enqueue(s, { jobs: Array.from({ length: 1001 }, () => ({})) });
  t.is(tooMany.body.details[0].path, 'jobs');
  await platform().db.query('update jobs set status = $2, finished_at = now() where project_id = $1', [
    s.project.id,
    'cancelled',
  ]);
  await hold('resume');
});

test.serial('bad options are refused by their names', async (t) => {
  const s = await scene('export const handler = () => null;');
  const cases: readonly [string, object][] = [
    ['priority', { priority: 10 }],
    ['delay_ms', { delay_ms: -1 }],
    ['run_at', { run_at: 'tomorrow' }],
    ['run_at', { run_at: '2999-01-01T00:00:00Z' }],
    ['run_at', { run_at: new Date().toISOString(), delay_ms: 1 }],
    ['unique_for_ms', { unique_for_ms: 10 }],
    ['unique_key', { unique_key: 'a\0b' }],
    ['concurrency', { concurrency: 1 }],
    ['concurrency', { concurrency: 0, concurrency_key: 'a' }],
    ['expires_in_ms', { expires_in_ms: 10, delay_ms: 10 }],
    ['retry.max_attempts', { retry: { max_attempts: 21 } }],
    ['retry.max_ms', { retry: { max_attempts: 2, base_ms: 10, max_ms: 5 } }],
    ['retry.on.0', { retry: { max_attempts: 2, on: ['memory_limit'] } }],
    ['payload', { payload: 1, jobs: [{}] }],
    ['jobs.1.priority', { jobs: [{}, { priority: 'high' }] }],
  ];
  for (const [path, body] of cases) {
    const answer = await enqueue(s, body);
    t.is(answer.status, 400, path);
    t.is(answer.body.details[0].path, path);
  }
});

test.serial('another project’s function is not found, and access and roles are those of a call', async (t) => {
  const { client } = platform();
  const [s, other] = [await scene('export const handler = () => 1;'), await scene('export const handler = () => 2;')];
  t.is((await s.ask('POST', `/functions/${other.fn.id}/jobs`, { body: {} })).status, 404);
  const at = (fn: { slug: string }, key: string | undefined, body: object = {}) =>
    client.call('POST', `/api/functions/${fn.slug}/jobs`, { key, body });
  t.is((await at(other.fn, s.project.key)).status, 404);
  t.is((await at(s.fn, s.project.publishableKey)).status, 202);
  for (const body of [{ jobs: [{}] }, { priority: 1 }, { retry: { max_attempts: 2 } }, { concurrency_key: 'a' }])
    t.is((await at(s.fn, s.project.publishableKey, body)).status, 403);
  t.is((await at(s.fn, s.project.key, { jobs: [{ priority: 1 }] })).status, 202);
  t.is((await at(s.fn, undefined)).status, 401);
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { access: 'secret' } });
  t.is((await at(s.fn, s.project.publishableKey)).status, 403);
  t.is((await at(s.fn, s.project.key)).status, 202);
});

test.serial('who is not the project has unique keys of its own, and short delays', async (t) => {
  const { client } = platform();
  const s = await scene('export const handler = (n) => n;');
  const tokenOf = async (): Promise<string> => {
    const { body } = await s.ask('POST', '/users/tokens', { body: { sub: crypto.randomUUID(), claims: {} } });
    return String(body.access_token);
  };
  const by = (who: { readonly key?: string; readonly token?: string }) => async (body: object) => {
    const answer = await client.call('POST', `/api/functions/${s.fn.slug}/jobs`, { ...who, body });
    return answer.status === 202 ? String(answer.body.jobs[0].status) : answer.status;
  };
  const [one, two] = [by({ token: await tokenOf() }), by({ token: await tokenOf() })];
  const [secret, open] = [by({ key: s.project.key }), by({ key: s.project.publishableKey })];
  const options = { unique_key: 'order-7', delay_ms: 60_000 };
  for (const each of [open, one, two, secret]) t.is(await each(options), 'queued');
  for (const each of [open, one, two, secret]) t.is(await each(options), 'duplicate');
  const late = { run_at: new Date(Date.now() + 7_200_000).toISOString() };
  for (const each of [open, one]) t.deepEqual([await each({ delay_ms: 3_600_001 }), await each(late)], [403, 403]);
  t.is(await secret(late), 'queued');
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { debounce_ms: 3_600_000 } });
  const [job] = (await enqueue(s, { payload: 'of the project' })).body.jobs;
  t.is(await open({ payload: 'of somebody' }), 'queued', 'nobody replaces what the project debounces');
  const [row] = await platform().db.query<{ data: string }>('select data from jobs where id = $1', [job.job_id]);
  t.is((JSON.parse(row?.data ?? '') as { payload: string }).payload, '"of the project"');
});

test.serial('of fifty jobs with one unique key one is made, and all callers get its id', async (t) => {
  const s = await scene('export const handler = () => null;');
  const options = { unique_key: 'once', unique_for_ms: 60_000 };
  const answers = await Promise.all(Array.from({ length: 50 }, () => enqueue(s, options)));
  const jobs = answers.map(({ body }) => body.jobs[0] as { job_id: string; status: string });
  t.is(new Set(jobs.map(({ job_id: id }) => id)).size, 1);
  t.is(jobs.filter(({ status }) => status === 'queued').length, 1);
  const [row] = await platform().db.query<{ n: number }>(
    'select count(*)::int as n from jobs where project_id = $1 and type = $2',
    [s.project.id, 'function.invoke'],
  );
  t.is(row?.n, 1);
  await platform().db.query(`update job_unique_keys set expires_at = now() where key = 'once'`);
  const [next] = (await enqueue(s, { jobs: [options, options] })).body.jobs;
  t.not(next.job_id, jobs[0]?.job_id);
});

test.serial('many payloads share their options; they stand beside no other payload', async (t) => {
  const s = await scene('export const handler = (n) => n;');
  const { body, status } = await enqueue(s, { payloads: [1, 2, null], priority: 3 });
  t.is(status, 202);
  t.is(body.jobs.length, 3);
  const rows = await platform().db.query<{ data: string; priority: number }>(
    'select data, priority from jobs where id = any ($1) order by id',
    [body.jobs.map(({ job_id: id }: { job_id: string }) => id)],
  );
  t.deepEqual(
    rows.map(({ data, priority }) => [(JSON.parse(data) as { payload: string }).payload, priority]),
    [
      ['1', 3],
      ['2', 3],
      ['null', 3],
    ],
  );
  for (const wrong of [{ payloads: [] }, { payloads: [1], payload: 1 }, { payloads: [1], jobs: [{}] }])
    t.is((await enqueue(s, wrong)).status, 400);
});

test.serial(
  'a delayed job waits for its time, which a clock that is set back only makes later; a late one expires',
  async (t) => {
    const s = await scene('export const handler = () => 7;');
    const { body } = await enqueue(s, {
      jobs: [{ delay_ms: 3_600_000 }, { expires_in_ms: 3_600_000, delay_ms: 1_800_000 }],
    });
    const [delayed, expiring] = body.jobs.map(({ job_id: id }: { job_id: string }) => id);
    const waiting = (await s.ask('GET', `/jobs/${delayed}`)).body;
    t.deepEqual([waiting.status, waiting.waiting_reason], ['queued', 'delayed']);
    const { db } = platform();
    await db.query('update jobs set next_run_at = now() where id = $1', [delayed]);
    t.is(await resultOf(s, delayed), 7);
    await db.query('update jobs set next_run_at = now(), expires_at = now() where id = $1', [expiring]);
    t.is((await s.jobWhen(expiring, 'expired')).error.code, 'expired');
  },
);

test.serial('of a concurrency key no more run at a time than it says, whatever others do', async (t) => {
  const s = await scene(`
    export const handler = async (payload, sdk) => {
      const [{ n }] = await sdk.db.query('update busy set n = n + 1 returning n');
      await new Promise((resolve) => setTimeout(resolve, 20));
      await sdk.db.query('update busy set n = n - 1');
      return n;
    };`);
  for (const sql of ['create table busy (n int)', 'insert into busy values (0)'])
    t.is((await s.ask('POST', '/db/query', { body: { sql } })).status, 200);
  const jobs = Array.from({ length: 8 }, () => ({ concurrency_key: 'one at a time' }));
  const { body } = await enqueue(s, { jobs });
  const ids: string[] = body.jobs.map(({ job_id: id }: { job_id: string }) => id);
  t.deepEqual(
    await Promise.all(ids.map((id) => resultOf(s, id))),
    ids.map(() => 1),
  );
});

test.serial('high priorities go first, and an old job of the lowest does not starve behind a flood', async (t) => {
  const s = await scene('export const handler = () => null;');
  await hold('pause');
  const low = (await enqueue(s, {})).body.jobs[0].job_id as string;
  const jobs = Array.from({ length: 30 }, () => ({ priority: 9 }));
  const high: string[] = (await enqueue(s, { jobs })).body.jobs.map(({ job_id: id }: { job_id: string }) => id);
  t.is((await s.ask('GET', `/jobs/${low}`)).body.position, 31);
  t.is((await s.ask('GET', `/jobs/${high[0]}`)).body.position, 1);
  await hold('resume');
  await Promise.all([...high, low].map((id) => s.jobWhen(id, 'succeeded')));
  const order = await platform().db.query<{ id: string }>(
    'select id from jobs where id = any ($1) order by started_at',
    [[low, ...high]],
  );
  t.true(order.findIndex(({ id }) => id === low) > 20);
});

test.serial('a chain of jobs that each enqueue the next ends at a hundred', async (t) => {
  const s = await scene(`
    export const handler = async (n, sdk) => {
      try { return await sdk.jobs.enqueue(sdk.env.SELF, n + 1); } catch (error) { return [error.name, error.code, n]; }
    };`);
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { env_vars: { SELF: s.fn.slug } } });
  const [{ job_id: id }] = (await enqueue(s, { payload: 0 })).body.jobs;
  await s.jobWhen(id, 'succeeded');
  const last = await until(async () => {
    const [row] = await platform().db.query<{ result: string }>(
      'select result from jobs where project_id = $1 and depth = 100 and finished_at is not null',
      [s.project.id],
    );
    return row;
  });
  t.deepEqual(JSON.parse(last.result).result, ['JobError', 'job_loop', 100]);
});
