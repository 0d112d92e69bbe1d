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

test('what steps wait for counts as their results do, since it is kept as long', async (t) => {
  const other = await scene(`exports.handler = async (payload, { step }) => {
    const filter = Array.from({ length: payload.terms }, (_, i) => 'data.a = data.b' + i).join(' and ');
    const waits = [];
    for (let i = 0; i < payload.waits; i += 1) {
      waits.push(step.waitForEvent('e' + i, { filter }));
      // 64 requests of a run may be open: those before a step that has ended are answered.
      if (i % 40 === 39) await step.run('mark' + i, () => null);
    }
    await step.all(waits);
  }`);
  const ended = await other.jobWhen(await other.begin({ terms: 150, waits: 200 }), 'waiting', 'failed');
  t.like(ended, { status: 'failed', error: { code: 'step_results_too_large' } }, JSON.stringify(ended));
  const asleep = await other.jobWhen(await other.begin({ terms: 1, waits: 20 }), 'waiting', 'failed');
  t.is(asleep.status, 'waiting', JSON.stringify(asleep));
  const [row] = await platform().db.query<{ step_bytes: number }>('select step_bytes from jobs where id = $1', [
    asleep.id,
  ]);
  t.true((row?.step_bytes ?? 0) > 20 * 200);
});

test('the rows of steps that have ended count in what the project stores', async (t) => {
  const other = await scene(`exports.handler = async (payload, { step }) => {
    for (let i = 0; i < 100; i += 1) await step.run('s' + i, () => null);
  }`);
  const id = await other.begin();
  await other.jobWhen(id, 'succeeded', 'failed');
  const [row] = await platform().db.query<{ kept_step_bytes: number }>(
    'select kept_step_bytes from jobs where id = $1',
    [id],
  );
  t.true((row?.kept_step_bytes ?? 0) >= 100 * 150, JSON.stringify(row));
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
