import test from 'ava';
import { type ProjectScene, endless, useJobsApi } from '#test/jobs/scene.ts';
import { cronClient } from '#test/cron/cron-client.ts';
import { createClient } from '#test/support/client.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const cap = 30;

const { scene, platform } = useJobsApi(test, { settings: { PLINTH_MONTHLY_CAP_FREE: String(cap) } });

const quick = 'exports.handler = (x) => x';

const usage = async ({ ask }: ProjectScene) => (await ask('GET', '/usage')).body.invocations;

const setUsed = async ({ project }: ProjectScene, used: number): Promise<void> => {
  await platform().db.query(
    `insert into job_usage (project_id, type, month, used, granted, most)
     values ($1, 'function.invoke', date_trunc('month', now() at time zone 'utc'), $2, 0, 0)
     on conflict (project_id, type, month) do update set used = $2`,
    [project.id, used],
  );
};

const acceptedJobs = async ({ project }: ProjectScene): Promise<number> => {
  const [row] = await platform().db.query<{ n: number }>(
    `select count(*) as n from jobs where project_id = $1 and type = 'function.invoke'`,
    [project.id],
  );
  return row?.n ?? 0;
};

const nextMonth = (): string => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString();
};

test('usage tells what is used, the limit and when it resets; Enterprise has no limit', async (t) => {
  const one = await scene(quick);
  t.deepEqual(await usage(one), { used: 0, limit: cap, resets_at: nextMonth() });
  await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  t.is((await usage(one)).used, 1);
  await one.ask('PATCH', '', { body: { plan: 'enterprise' } });
  await setUsed(one, 5_000_000);
  t.is((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } })).status, 200);
  t.deepEqual(await usage(one), { used: 5_000_001, limit: null, resets_at: nextMonth() });
  await one.ask('PATCH', '', { body: { plan: 'pro' } });
  t.is((await usage(one)).limit, 2_000_000);
});

test('over the cap every way of asking is refused with the limit and the reset, and leaves nothing', async (t) => {
  const one = await scene(quick);
  const made = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  await until(async () => (await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.total === 1);
  await setUsed(one, cap);
  const { client } = platform();
  const keyed = { 'idempotency-key': 'k' };
  const large = 'x'.repeat(100_000);
  const answers = [
    await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } }),
    await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: large } }),
    await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 }, headers: keyed }),
    await one.ask('POST', `/functions/${one.fn.id}/invoke`, {
      body: { payload: 1 },
      headers: { prefer: 'respond-async' },
    }),
    await one.ask('POST', `/functions/${one.fn.id}/invocations/${made.body.invocation_id}/rerun`),
    await client.call('POST', `/api/functions/${one.fn.slug}`, { key: one.project.publishableKey }),
    await client.call('POST', `/p/${one.project.ref}/functions/v1/${one.fn.slug}`, { key: one.project.key }),
  ];
  for (const { status, body, headers } of answers) {
    t.is(status, 429);
    t.is(body.code, 'monthly_cap_exceeded');
    t.true(body.message.includes(String(cap)) && body.message.includes(nextMonth()));
    const seconds = Number(headers.get('retry-after'));
    t.true(Math.abs(seconds - (Date.parse(nextMonth()) - Date.now()) / 1000) < 60);
  }
  t.is(await acceptedJobs(one), 1);
  t.is((await usage(one)).used, cap);
  await setUsed(one, cap - 1);
  const again = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 }, headers: keyed });
  t.is(again.status, 200, 'the refused request did not use up its key');
});

test('of 20 callers at once over two API processes exactly as many are served as the cap allows', async (t) => {
  const one = await scene(quick);
  const clients = [platform().client, createClient(await platform().startApi())];
  await setUsed(one, cap - 25);
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async (_, caller) => {
      const seen: number[] = [];
      for (let i = 0; i < 4; i += 1) {
        const headers = i % 2 === 0 ? {} : { 'idempotency-key': `${caller} ${i}`.replace(' ', '-') };
        const options = { key: one.project.key, body: i, headers };
        const call = () => clients[(caller + i) % 2]?.call('POST', `/api/functions/${one.fn.slug}`, options);
        // A machine that is busy with other tests may have no connection for us in time; nothing is accepted then.
        const answer = await until(async () => {
          const given = await call();
          return given?.status !== 503 && given;
        });
        seen.push(answer.status);
      }
      return seen;
    }),
  );
  const all = statuses.flat();
  t.is(all.filter((status) => status === 200).length, 25);
  t.is(all.filter((status) => status === 429).length, 55);
  t.is(await acceptedJobs(one), 25);
  t.is((await usage(one)).used, cap);
});

test('an API process that is killed in the middle leaves the count as exact as before', async (t) => {
  t.timeout(longTestMs);
  const one = await scene(quick);
  await one.ask('PATCH', '', { body: { plan: 'pro' } });
  const api = startProcess('api/server.ts', environmentOf({ ...platform().config, PORT: 0 }));
  const { port } = await api.ready;
  const client = createClient(`http://127.0.0.1:${port}`);
  let answered = 0;
  const calls = Array.from({ length: 16 }, async () => {
    for (;;) {
      const headers = { prefer: 'respond-async' };
      const answer = await client
        .call('POST', `/api/functions/${one.fn.slug}`, { key: one.project.key, body: 1, headers })
        .catch(() => null);
      if (answer === null) return;
      answered += 1;
    }
  });
  await until(() => answered > 150);
  api.child.kill('SIGKILL');
  await api.end;
  await Promise.all(calls);
  await until(async () => (await one.ask('GET', '/jobs?status=queued&limit=1')).body.total === 0);
  const jobs = await acceptedJobs(one);
  t.true(jobs >= answered);
  t.is((await usage(one)).used, jobs);
});

test('a new month begins at none; the months before stay as they were', async (t) => {
  const one = await scene(quick);
  await setUsed(one, cap);
  t.is((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } })).status, 429);
  await platform().db.query(`update job_usage set month = month - interval '1 month' where project_id = $1`, [
    one.project.id,
  ]);
  t.is((await usage(one)).used, 0);
  t.is((await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } })).status, 200);
  const rows = await platform().db.query<{ used: number }>(
    'select used from job_usage where project_id = $1 order by month',
    [one.project.id],
  );
  t.deepEqual(rows, [{ used: cap }, { used: 1 }]);
});

test('a schedule over the cap has failed runs with that code, and its fire now is refused', async (t) => {
  const one = await scene(quick);
  const cron = cronClient(platform(), one.user, one.project);
  const id = await cron.create({ type: 'function', function_id: one.fn.id });
  await setUsed(one, cap);
  t.is((await cron.call('POST', `/cron/${id}/run`)).body.code, 'monthly_cap_exceeded');
  t.is((await cron.call('GET', `/cron/${id}/runs`)).body.total, 0);
  await platform().db.query(
    `update schedules set next_run_at = now() - interval '1 second', due_at = now() - interval '1 second' where id = $1`,
    [id],
  );
  const { run } = await cron.endOf(id);
  t.like(run, { status: 'failed', job_id: null, error: { code: 'monthly_cap_exceeded' } });
  t.is(await acceptedJobs(one), 0);
  await setUsed(one, 0);
  t.is((await cron.run(id)).run.status, 'succeeded');
  t.is((await usage(one)).used, 1);
});

test('a job that the full queue gives back gives back its count', async (t) => {
  const one = await scene(endless);
  await platform().db.transaction(
    (tx) =>
      tx.query(`insert into job_limits (project_id, type, running, waiting) values ($1, 'function.invoke', 1, 1)`, [
        one.project.id,
      ]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  const answers = [];
  for (let i = 0; i < 6; i += 1) {
    const headers = { prefer: 'respond-async' };
    answers.push(await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 }, headers }));
  }
  const refused = answers.filter(({ body }) => body.code === 'queue_full').length;
  t.true(refused > 0);
  t.is((await usage(one)).used, 6 - refused);
  for (const { body } of answers) if (body.job_id) await one.ask('POST', `/jobs/${body.job_id}/cancel`);
});

test('running a failed job again by hand counts as a run', async (t) => {
  const one = await scene('exports.handler = () => { throw new Error("x") }');
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  // Its end is told before it is recorded.
  const retry = () =>
    until(async () => {
      const answer = await one.ask('POST', `/jobs/${body.invocation_id}/retry`);
      return answer.status !== 409 && answer;
    });
  t.is((await retry()).status, 202);
  t.is((await usage(one)).used, 2);
  await setUsed(one, cap);
  t.is((await retry()).body.code, 'monthly_cap_exceeded');
  t.is((await one.jobWhen(body.invocation_id, 'failed')).status, 'failed');
  t.is((await usage(one)).used, cap);
});
