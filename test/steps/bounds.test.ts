import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { noPython } from '#test/runtimes/python-harness.ts';

const { scene, platform } = useJobsApi(test, { settings: { PLINTH_SLEEPING_RUNS: '1' } });

test('a run that would sleep fails when too many of its project do', async (t) => {
  const one = await scene(`exports.handler = (payload, { step }) => step.sleep(3_600_000);`);
  const first = await one.begin();
  await one.jobWhen(first, 'waiting');
  const { db } = platform();
  // The first was counted before it slept, and a count is remembered for some seconds.
  const other = await scene(`exports.handler = (payload, { step }) => step.sleep(3_600_000);`);
  await db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id, next_run_at)
     values (uuid_v7(), $1, 'test.asleep', 'waiting', '{}', 1, 'asleep', 'infinity')`,
    [other.project.id],
  );
  const job = await other.jobWhen(await other.begin(), 'waiting', 'failed');
  t.like(job, { status: 'failed', error: { code: 'error' } }, JSON.stringify(job));
  t.regex(job.error.message, /Too many runs/);
  t.is((await one.ask('GET', `/jobs/${first}`)).body.status, 'waiting');
});

test('what is no step is refused in words, and a public caller is told that the run goes on', async (t) => {
  const one = await scene(`exports.handler = async (payload, { step }) => {
    const failed = async (work) => work().then(() => 'none', ({ message }) => message);
    const said = [
      await failed(() => step.run('', () => 1)),
      await failed(() => step.run('x')),
      await failed(() => step.run('x'.repeat(201), () => 1)),
      await failed(() => step.sleep('long')),
      await failed(() => step.sleepUntil('never')),
      await failed(() => step.run('circle', () => { const a = {}; a.a = a; return a; })),
    ];
    if (payload.sleep) await step.sleep(3_600_000);
    return said;
  }`);
  const { result } = (await one.jobWhen(await one.begin({}), 'succeeded', 'failed')).result;
  for (const [place, expected] of [
    /needs a name/,
    /a name and a function/,
    /at most 200/,
    /number of milliseconds/,
    /must be a date/,
    /JSON/,
  ].entries())
    t.regex(result[place], expected);
  const answer = await fetch(`${platform().base}/api/functions/${one.fn.slug}`, {
    method: 'POST',
    body: '{"sleep":true}',
    headers: { apikey: one.project.key, 'content-type': 'application/json' },
  });
  t.is(answer.status, 202);
  t.is(answer.headers.get('location'), `/api/jobs/${((await answer.json()) as { job_id: string }).job_id}`);
});

(noPython === null ? test : test.skip)('functions that Python waits for wait at the same time', async (t) => {
  const one = await scene('exports.handler = () => 1');
  const { client, db } = platform();
  const code = `def handler(payload, sdk):
    first, second = sdk.step.all([
        lambda: sdk.step.wait_for_event('first.done', timeout=600000),
        lambda: sdk.step.wait_for_event('second.done', filter='data.n > 1', timeout=600000),
    ])
    return [first['data']['n'], second['data']['n'], sdk.step.run('sum', lambda a, b: a + b, 1, 2)]
`;
  const fn = await client.deploy(one.user, one.project, code, { language: 'python' });
  const { body } = await one.ask('POST', `/functions/${fn.id}/jobs`, { body: {} });
  const id = body.jobs[0].job_id as string;
  const asleep = await one.jobWhen(id, 'waiting', 'failed');
  t.is(asleep.steps?.length, 2, JSON.stringify(asleep));
  for (const [event, n] of [
    ['second.done', 1],
    ['second.done', 2],
    ['first.done', 3],
  ])
    await db.query('insert into outbox_events (project_id, event, data) values ($1, $2, $3)', [
      one.project.id,
      event,
      JSON.stringify({ n }),
    ]);
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.deepEqual(job.result?.result, [3, 2, 3], JSON.stringify(job));
});
