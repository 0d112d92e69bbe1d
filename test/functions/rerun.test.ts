import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const first = 'exports.handler = (x) => ({ v: 1, x })';
const second = 'exports.handler = (x) => ({ v: 2, x })';

const setUp = async () => {
  const one = await scene(first);
  const path = `/functions/${one.fn.id}`;
  const { body } = await one.ask('POST', `${path}/invoke`, { body: { payload: [1] } });
  const { invocation_id: id } = body as { invocation_id: string };
  await until(async () => (await one.ask('GET', `${path}/invocations/${id}`)).body.status === 'success');
  return { ...one, path, id, rerun: (query = '') => one.ask('POST', `${path}/invocations/${id}/rerun${query}`) };
};

test('a rerun gives the present version the payload of then, the original one on request', async (t) => {
  const { ask, path, rerun, id } = await setUp();
  await ask('PATCH', path, { body: { code: second } });
  const current = await rerun();
  t.is(current.status, 200);
  t.like(current.body, { status: 'success', result: { v: 2, x: [1] } });
  t.not(current.body.invocation_id, id);
  t.deepEqual((await rerun('?version=current')).body.result, { v: 2, x: [1] });
  const original = await rerun('?version=original');
  t.deepEqual(original.body.result, { v: 1, x: [1] });
  const run = await until(async () => {
    const { body } = await ask('GET', `${path}/invocations/${original.body.invocation_id}`);
    return body.status === 'success' && (body as object);
  });
  t.like(run, { version: 1, trigger: 'dashboard' });
  t.is((await rerun('?version=2')).status, 400);
});

test('the payload is the exact text of then, whatever it holds', async (t) => {
  const one = await scene('exports.handler = (x) => x');
  const { client } = platform();
  const large = JSON.stringify('ü'.repeat(1_500_000));
  for (const raw of ['{"n":12345678901234567890,"a":1.10}', String.raw`"\u0000\ud800"`, 'null', large]) {
    const called = await client.call('POST', `/api/functions/${one.fn.slug}`, { key: one.project.key, raw });
    const id = called.headers.get('x-invocation-id') ?? '';
    const again = await one.ask('POST', `/functions/${one.fn.id}/invocations/${id}/rerun`, {
      headers: { prefer: 'respond-async' },
    });
    t.is(again.status, 202);
    const [before, after] = await Promise.all(
      [id, String(again.body.job_id)].map(async (jobId) => {
        const rows = await platform().db.query<{ data: string }>('select data from jobs where id = $1', [jobId]);
        return (JSON.parse(rows[0]?.data ?? '') as { payload: string }).payload;
      }),
    );
    t.is(before, raw);
    t.is(after, raw);
  }
});

test('a rerun needs neither the job of then nor another body', async (t) => {
  const { ask, path, id, rerun } = await setUp();
  await platform().db.query('delete from jobs where id = $1', [id]);
  t.deepEqual((await rerun()).body.result, { v: 1, x: [1] });
  t.is((await ask('POST', `${path}/invocations/${id}/rerun`, { body: { payload: 1 } })).status, 400);
});

test('a version that is not kept any more is 409; a run that is unknown 404', async (t) => {
  const { ask, path, rerun, fn, project } = await setUp();
  await ask('PATCH', path, { body: { code: second } });
  await platform().db.query('delete from function_versions where function_id = $1', [fn.id]);
  const gone = await rerun('?version=original');
  t.is(gone.status, 409);
  t.regex(gone.body.message, /Version 1/);
  t.is((await ask('POST', `${path}/invocations/${project.id}/rerun`)).status, 404);
});

test('with an Idempotency-Key many reruns are one run', async (t) => {
  const { ask, path, id } = await setUp();
  const headers = { 'idempotency-key': 'once' };
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => ask('POST', `${path}/invocations/${id}/rerun`, { headers })),
  );
  t.is(new Set(answers.map(({ body }) => String(body.invocation_id))).size, 1);
});

test('a replay of a public invoke repeats its headers, also when it is not waited for', async (t) => {
  const { ask, path, fn, project } = await setUp();
  const call = (prefer?: string) =>
    platform().client.call('POST', `/api/functions/${fn.slug}`, {
      key: project.key,
      body: 5,
      headers: { 'idempotency-key': 'a-key', ...(prefer && { prefer }) },
    });
  const one = await call();
  await ask('PATCH', path, { body: { code: second } });
  for (const again of [await call(), await call('respond-async')]) {
    t.is(again.headers.get('idempotent-replayed'), 'true', again.text);
    t.is(again.headers.get('x-invocation-id'), one.headers.get('x-invocation-id'));
    t.is(again.headers.get('x-function-version'), '1');
  }
});
