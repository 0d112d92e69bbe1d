import test from 'ava';
import { mayRead } from '#domain/jobs/store.ts';
import { until } from '#test/support/until.ts';
import { type ProjectScene, useJobsApi } from './scene.ts';

const { platform, scene } = useJobsApi(test);

const publishableKey = async ({ ask }: ProjectScene): Promise<string> => {
  const { status, body } = await ask('POST', '/api-keys', { body: { name: 'another', kind: 'publishable' } });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return String(body.api_key);
};

const start = async ({ fn }: ProjectScene, key: string): Promise<string> => {
  const headers = { prefer: 'respond-async' };
  const answer = await platform().client.call('POST', `/api/functions/${fn.slug}`, { key, body: 1, headers });
  if (answer.status !== 202) throw new Error(answer.text);
  return String(answer.body.job_id);
};

const read = async (id: string, key: string): Promise<number> =>
  (await platform().client.call('GET', `/api/jobs/${id}`, { key })).status;

const starterIn = async (id: string): Promise<string> => {
  const [row] = await platform().db.query<{ kind: string; id: string | null }>(
    'select started_by_kind as kind, started_by_id as id from jobs where id = $1',
    [id],
  );
  return `${row?.kind} ${row?.id === null ? 'nobody' : 'somebody'}`;
};

test('a publishable key reads the jobs that it started, and no others', async (t) => {
  const at = await scene('exports.handler = () => "private"');
  const { key, publishableKey: own } = at.project;
  const other = await publishableKey(at);
  const [bySecret, byOwn, byDashboard] = [await start(at, key), await start(at, own), await at.begin()];
  const seen = async (id: string): Promise<number[]> => [
    await read(id, key),
    await read(id, own),
    await read(id, other),
  ];
  t.deepEqual(await seen(bySecret), [200, 404, 404]);
  t.deepEqual(await seen(byOwn), [200, 200, 404]);
  t.deepEqual(await seen(byDashboard), [200, 404, 404]);
  const resultBy = async (by: string) =>
    Object.keys((await platform().client.call('GET', `/api/jobs/${byOwn}`, { key: by })).body.result);
  await at.jobWhen(byOwn, 'succeeded');
  t.true((await resultBy(key)).includes('timings'));
  t.deepEqual(await resultBy(own), ['status', 'result', 'duration_ms', 'invocation_id']);
  t.deepEqual(
    [await starterIn(bySecret), await starterIn(byOwn), await starterIn(byDashboard)],
    ['secret somebody', 'publishable somebody', 'dashboard somebody'],
  );
});

test('the answer for a job of somebody else is that of a job which does not exist', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const id = await start(at, at.project.key);
  const absent = '00000000-0000-7000-8000-000000000000';
  const [present, missing] = await Promise.all(
    [id, absent].map((one) => platform().client.call('GET', `/api/jobs/${one}`, { key: at.project.publishableKey })),
  );
  t.deepEqual({ ...present?.body, request_id: '' }, { ...missing?.body, request_id: '' });
});

test('a job that was accepted before starters were recorded is seen by secret keys only', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const id = await start(at, at.project.publishableKey);
  await platform().db.query('update jobs set started_by_kind = null, started_by_id = null where id = $1', [id]);
  t.is(await read(id, at.project.publishableKey), 404);
  t.is(await read(id, at.project.key), 200);
});

test('a run of a schedule remembers its schedule', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const schedule = await at.ask('POST', '/cron', {
    body: { name: 'n', schedule: '0 0 1 1 *', target: { type: 'function', function_id: at.fn.id }, payload: null },
  });
  t.is(schedule.status, 201);
  t.true((await at.ask('POST', `/cron/${schedule.body.id}/run`)).status < 300);
  const job = await until(async () => {
    const [row] = await platform().db.query<{ id: string; starter: string }>(
      `select id, started_by_id as starter from jobs where project_id = $1 and started_by_kind = 'cron'`,
      [at.project.id],
    );
    return row;
  });
  t.is(job.starter, schedule.body.id);
  t.is(await read(job.id, at.project.publishableKey), 404);
});

test('one end user does not read the jobs of another', (t) => {
  const job = { started_by_kind: 'user', started_by_id: 'ada' };
  t.true(mayRead(job, { kind: 'user', id: 'ada' }));
  t.false(mayRead(job, { kind: 'user', id: 'grace' }));
  // The id of a key can be chosen by nobody, the subject of a token can: kinds never stand for one another.
  t.false(mayRead(job, { kind: 'publishable', id: 'ada' }));
  t.false(mayRead({ started_by_kind: 'user', started_by_id: null }, { kind: 'user', id: null }));
});
