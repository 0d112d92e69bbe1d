import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

interface Line {
  readonly source: string;
  readonly level: string;
  readonly message: string;
  readonly request_id: string | null;
  readonly job_id?: string;
  readonly delivery_id?: string;
}

const code = `export const handler = (x) => { console.warn('saw', x); if (x === 'bad') throw new Error('50% off_x'); return x; };`;

const setUp = async () => {
  const one = await scene(code);
  const logs = async (query: string) =>
    (await one.ask('GET', `/logs?${query}`)).body as { logs: Line[]; next: string | null };
  const run = async (payload: string) => {
    const answer = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload } });
    return { request: answer.headers.get('x-request-id') ?? '', id: String(answer.body.invocation_id) };
  };
  return { ...one, logs, run };
};

test('one request finds what its function logged and how its job ended', async (t) => {
  const { logs, run } = await setUp();
  const [bad] = [await run('bad'), await run('good')];
  const found = await until(async () => {
    const { logs: lines } = await logs(`request_id=${bad.request}`);
    return lines.length > 0 && lines;
  });
  t.is(found.length, 1);
  t.like(found[0], { source: 'function', message: 'saw bad', request_id: bad.request });
  const ends = await logs(`source=job&request_id=${bad.request}`);
  t.is(ends.next, null);
  t.like(ends.logs[0], {
    source: 'job',
    level: 'error',
    message: 'function.invoke failed: 50% off_x',
    job_id: bad.id,
    request_id: bad.request,
  });
  t.deepEqual((await logs('source=job&request_id=nothing')).logs, []);
  t.deepEqual((await logs('source=webhook&request_id=nothing')).logs, []);
});

test('ends of jobs are found by text and level, page by page', async (t) => {
  const { logs, run } = await setUp();
  for (const payload of ['bad', 'good', 'bad']) await run(payload);
  const bad = await until(async () => {
    const { logs: lines } = await logs('source=job&level=error');
    return lines.length === 2 && lines;
  });
  t.is((await logs('source=job&q=OFF_X')).logs.length, 2);
  t.is((await logs('source=job&q=offyx')).logs.length, 0);
  t.is((await logs('source=job&level=info&q=provision')).logs.length, 1);
  const first = await logs('source=job&level=error&limit=1');
  const second = await logs(`source=job&level=error&limit=1&cursor=${first.next ?? ''}`);
  t.deepEqual([...first.logs, ...second.logs], bad);
  t.is(second.next, null);
});

test('deliveries are lines, too, and what makes no sense is refused', async (t) => {
  const { ask, logs, project } = await setUp();
  const made = await ask('POST', '/integrations/webhooks', {
    body: { url: 'http://127.0.0.1:9/', events: ['auth.*'] },
  });
  const insert = (status: string) =>
    platform().db.query(
      `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, error, finished_at)
       select id, project_id, gen_random_uuid(), 'auth.login', $2, $3, now() from webhooks where id = $1`,
      [made.body.id, status, status === 'success' ? null : 'The receiver answered 500.'],
    );
  for (const status of ['success', 'failed', 'exhausted']) await insert(status);
  const all = await logs('source=webhook');
  t.deepEqual(all.logs.map(({ level, message }) => `${level} ${message}`).toSorted(), [
    'error auth.login exhausted: The receiver answered 500.',
    'error auth.login failed: The receiver answered 500.',
    'info auth.login success',
  ]);
  t.is((await logs('source=webhook&level=error')).logs.length, 2);
  t.is((await logs('source=webhook&q=answered')).logs.length, 2);
  const first = await logs('source=webhook&limit=2');
  t.is((await logs(`source=webhook&limit=2&cursor=${first.next ?? ''}`)).logs.length, 1);
  const never = Buffer.from(JSON.stringify(['2024-99-99 00:00', project.id])).toString('base64url');
  for (const query of [
    'source=nothing',
    'source=job,mail',
    'source=function,job',
    'source=',
    'source=job&cursor=x',
    `source=job&cursor=${never}`,
    'source=webhook&cursor=x',
    'source=mail&cursor=x',
    'source=job&function=a',
    'source=mail&function=a',
  ])
    t.is((await ask('GET', `/logs?${query}`)).status, 400, query);
  const live = await ask('GET', '/logs?source=job', { headers: { accept: 'text/event-stream' } });
  t.is(live.status, 400);
  const other = await scene(code);
  t.deepEqual((await other.ask('GET', '/logs?source=webhook')).body, { logs: [], next: null });
  t.not(other.project.id, project.id);
});
