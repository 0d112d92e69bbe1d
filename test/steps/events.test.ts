import test from 'ava';
import { resumeWaiting } from '#domain/functions/step-events.ts';
import { newId } from '#lib/ids.ts';
import { useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

type Scene = Awaited<ReturnType<typeof scene>>;

const emit = async ({ project }: Scene, event: string, data: object): Promise<void> => {
  await platform().db.query('insert into outbox_events (project_id, event, data) values ($1, $2, $3)', [
    project.id,
    event,
    JSON.stringify(data),
  ]);
};

const waiting = `exports.handler = async (payload, { step }) => {
  const event = await step.waitForEvent(payload.event, { filter: payload.filter, timeout: payload.timeout });
  return event && { name: event.event, data: event.data, old: event.old };
}`;

test('a step waits for the first event that its filter takes; its run holds no place meanwhile', async (t) => {
  const one = await scene(waiting);
  const id = await one.begin({ event: 'order.paid', filter: 'data.order = 7', timeout: 600_000 });
  const asleep = await one.jobWhen(id, 'waiting', 'failed');
  t.like(asleep, { status: 'waiting', waiting_reason: 'step_event', position: null, finished_at: null });
  t.like(asleep.steps, [{ name: 'order.paid', status: 'waiting', finished_at: null, result: null }]);
  t.is((await one.ask('GET', '/queue')).body.running, 0);
  t.is((await one.ask('GET', '/jobs?status=waiting')).body.total, 1);
  await emit(one, 'order.sent', { order: 7 });
  await emit(one, 'order.paid', { order: 8 });
  await emit(one, 'order.paid', { order: 7, by: 'card' });
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.deepEqual(job.result.result, { name: 'order.paid', data: { order: 7, by: 'card' } }, JSON.stringify(job));
});

test('a step that waited long enough has null; a filter or a time that makes no sense is an error of the code', async (t) => {
  const one = await scene(waiting);
  const late = await one.jobWhen(await one.begin({ event: 'order.paid', timeout: 50 }), 'succeeded', 'failed');
  t.deepEqual([late.status, late.result.result], ['succeeded', null], JSON.stringify(late));
  for (const [payload, message] of [
    [{ event: 'order.paid', filter: 'data.order = ' }, /filter/i],
    [{ event: 'order.paid', timeout: -1 }, /negative/],
    [{ event: 'order.paid', timeout: 1e15 }, /365 days/],
    [{ event: '' }, /name/],
  ] as const) {
    const job = await one.jobWhen(await one.begin(payload), 'succeeded', 'failed');
    t.is(job.status, 'failed', JSON.stringify(job));
    t.regex(job.error.message, message);
  }
});

test('a write to a table is an event that a step can wait for, though no webhook asks for it', async (t) => {
  const one = await scene(waiting);
  const { client } = platform();
  const sql = await client.deploy(one.user, one.project, 'exports.handler = (sql, { db }) => db.query(sql);');
  const run = (text: string) => client.invoke(one.user, one.project, sql, text);
  await run('create table orders (id int primary key, status text)');
  await run(`insert into orders values (1, 'new'), (2, 'new')`);
  const id = await one.begin({ event: 'table.orders.UPDATE', filter: `data.status = 'paid' and old.status = 'new'` });
  await one.jobWhen(id, 'waiting');
  await run(`update orders set status = 'sent' where id = 1`);
  await run(`update orders set status = 'paid' where id = 2`);
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.deepEqual(job.result.result, {
    name: 'table.orders.UPDATE',
    data: { id: 2, status: 'paid' },
    old: { id: 2, status: 'new' },
  });
});

const ofFunction = (id: string): string => `data.function_id = '${id}'`;

test('the end of another function is an event that a step can wait for, though no webhook asks for it', async (t) => {
  const one = await scene(waiting);
  const { client } = platform();
  const quick = await client.deploy(one.user, one.project, 'exports.handler = () => 1;');
  const dead = await client.deploy(one.user, one.project, `exports.handler = () => { throw new Error('no'); };`, {
    retry: { max_attempts: 1 },
  });
  const cases = [
    [{ event: 'functions.invoked', filter: ofFunction(quick.id) }, quick, 'functions.invoked', { status: 'success' }],
    [{ event: 'functions.error', filter: ofFunction(dead.id) }, dead, 'functions.error', { status: 'error' }],
    [{ event: 'functions.dead' }, dead, 'functions.dead', { attempts: 1, error: { code: 'error', message: 'no' } }],
  ] as const;
  for (const [payload, fn, name, data] of cases) {
    const id = await one.begin({ ...payload, timeout: 600_000 });
    await one.jobWhen(id, 'waiting', 'failed');
    await one.ask('POST', `/functions/${fn.id}/jobs`, { body: { payload: null } });
    const job = await one.jobWhen(id, 'succeeded', 'failed');
    t.like(job.result?.result, { name, data: { function_id: fn.id, ...data } }, JSON.stringify(job));
  }
});

test('a run that its steps ended is an error in its event, as it is in its record', async (t) => {
  const one = await scene(waiting);
  const { client } = platform();
  const many = await client.deploy(
    one.user,
    one.project,
    `exports.handler = (payload, { step }) => step.run('s', () => 'x'.repeat(5 * 1024 * 1024));`,
    { timeout_ms: 60_000 },
  );
  const id = await one.begin({ event: 'functions.error', timeout: 600_000 });
  await one.jobWhen(id, 'waiting', 'failed');
  const answer = await one.ask('POST', `/functions/${many.id}/jobs`, { body: { payload: null } });
  const failed = String(answer.body.jobs[0].job_id);
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  const { status, error } = job.result.result.data;
  t.deepEqual([status, error.name], ['error', 'StepError'], JSON.stringify(job));
  t.like(await one.jobWhen(failed, 'failed'), { error: { code: 'step_results_too_large' } });
  const { body } = await one.ask('GET', `/functions/${many.id}/invocations?limit=1`);
  t.like(body.invocations[0], { id: failed, status: 'error' });
});

test('an event that comes while the run still does something else is not missed', async (t) => {
  const one = await scene(`exports.handler = async (payload, { step, db }) => {
    const [event, asked] = await step.all([
      step.waitForEvent('answer.given', { timeout: 600_000 }),
      step.run('ask', async () => {
        const isThere = async () => (await db.queryOne("select to_regclass('public.go') is not null as go")).go;
        while (!(await isThere())) await new Promise((resolve) => setTimeout(resolve, 20));
        return 'asked';
      }),
    ]);
    return [event.data, asked];
  }`);
  const id = await one.begin();
  const { db, client } = platform();
  await until(async () => (await db.query('select from job_steps where job_id = $1', [id])).length === 1);
  await emit(one, 'answer.given', { yes: true });
  await until(
    async () => (await db.query(`select from job_steps where job_id = $1 and status = 'succeeded'`, [id])).length === 1,
  );
  t.is((await one.ask('GET', `/jobs/${id}`)).body.status, 'running');
  const sql = await client.deploy(one.user, one.project, 'exports.handler = (sql, { db }) => db.query(sql);');
  await client.invoke(one.user, one.project, sql, 'create table go ()');
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.deepEqual(job.result?.result, [{ yes: true }, 'asked'], JSON.stringify(job));
});

test('one event resumes any number of runs, in batches, each once, and those of other projects stay asleep', async (t) => {
  const [one, other] = [await scene(waiting), await scene(waiting)];
  const { db } = platform();
  const sleepers = async ({ project }: Scene, count: number): Promise<void> => {
    await db.query(
      `with made as (
         insert into jobs (id, project_id, type, status, data, max_attempts, request_id, has_steps, step_wait, next_run_at)
         select uuid_v7(), $1, 'test.asleep', 'waiting', '{}', 1, 'asleep', true, 'event', now() + interval '1 day'
         from generate_series(1, $2) returning id, project_id)
       insert into job_steps (job_id, name, kind, status, started_at, due_at, project_id, event)
       select id, 'go', 'event', 'waiting', now(), now() + interval '1 day', project_id, 'go' from made`,
      [project.id, count],
    );
  };
  await sleepers(one, 2300);
  await sleepers(other, 3);
  const event = { id: newId(), event: 'go', data: '{}', body: '{"event":"go"}' };
  t.deepEqual(await resumeWaiting(db, one.project.id, [event]), { resumed: 2300, compared: 2300 });
  t.deepEqual(await resumeWaiting(db, one.project.id, [event]), { resumed: 0, compared: 0 });
  const due = await db.query<{ project_id: string; count: number }>(
    `select project_id, count(*)::int as count from jobs where type = 'test.asleep' and next_run_at <= now() group by 1`,
  );
  t.deepEqual(due, [{ project_id: one.project.id, count: 2300 }]);
});
