import test from 'ava';
import { newId } from '#lib/ids.ts';
import { type ProjectScene, useJobsApi } from './scene.ts';

const { platform, scene, hold } = useJobsApi(test, { settings: { PLINTH_WAITING_JOBS: '4' } });

const add = async ({ project }: ProjectScene, status: string, age: string, result = '{"n":9007199254740993}') => {
  const id = newId();
  await platform().db.query(
    `insert into jobs (id, project_id, type, status, data, result, request_id, created_at)
     values ($1, $2, 'function.invoke', $3, '{}', $4, 'r', now() - $5::interval)`,
    [id, project.id, status, result, age],
  );
  return id;
};

const idsOf = (answer: { body: { jobs: { id: string }[] } }): string[] => answer.body.jobs.map(({ id }) => id);

test('the jobs of a project are listed newest first, a page at a time, with their number', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const [old, middle, young] = [
    await add(at, 'succeeded', '-1 hours'),
    await add(at, 'failed', '-2 hours'),
    await add(at, 'succeeded', '-3 hours'),
  ];
  const all = await at.ask('GET', '/jobs');
  t.is(all.status, 200);
  // The creation of the project is a job too.
  t.is(all.body.total, 4);
  t.deepEqual(idsOf(all).slice(0, 3), [young, middle, old]);
  t.is(all.body.jobs[3].type, 'project.provision');
  const second = await at.ask('GET', '/jobs?limit=2&offset=1');
  t.deepEqual(idsOf(second), [middle, old]);
  t.is(second.body.total, 4);
  t.deepEqual(idsOf(await at.ask('GET', '/jobs?offset=100')), []);
});

test('jobs are listed by status and type; what there is not is 400', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const [good, bad] = [await add(at, 'succeeded', '-1 hours'), await add(at, 'failed', '-2 hours')];
  t.deepEqual(idsOf(await at.ask('GET', '/jobs?status=failed')), [bad]);
  const runs = await at.ask('GET', '/jobs?type=function.invoke');
  t.deepEqual([idsOf(runs), runs.body.total], [[bad, good], 2]);
  t.is((await at.ask('GET', '/jobs?type=project.provision&status=succeeded')).body.total, 1);
  for (const query of ['status=done', 'type=nonsense', 'limit=0', 'limit=201', 'offset=-1', 'limit=x']) {
    const answer = await at.ask('GET', `/jobs?${query}`);
    t.is(answer.status, 400, query);
    t.is(answer.body.code, 'validation_failed');
    t.is(answer.body.details[0].path, query.split('=')[0]);
  }
});

test('a project sees its own jobs only, with exact results; long ones are left to the job itself', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const other = await scene('exports.handler = () => 1');
  await add(other, 'failed', '-1 hours');
  const short = await add(at, 'succeeded', '-1 hours');
  const long = await add(at, 'succeeded', '-2 hours', JSON.stringify('x'.repeat(17_000)));
  const answer = await at.ask('GET', '/jobs?status=succeeded&type=function.invoke');
  t.deepEqual(idsOf(answer), [long, short]);
  t.is(answer.body.jobs[0].result, null);
  t.true(answer.text.includes('"result":{"n":9007199254740993}'));
  t.is((await at.ask('GET', `/jobs/${long}`)).body.result.length, 17_000);
  t.notRegex(answer.text, /worker_id|run_id|reply_to|next_run_at|traceparent/);
});

// Alone: the functions of everybody wait meanwhile.
test.serial('waiting jobs are listed with their places; when too many wait the next is refused', async (t) => {
  const at = await scene('exports.handler = () => 1');
  await hold('pause');
  const ids = [];
  for (let i = 0; i < 4; i += 1) ids.push(await at.begin(i));
  const { body } = await at.ask('GET', '/jobs?status=queued');
  t.deepEqual(
    body.jobs.map((job: Record<string, unknown>) => [job['id'], job['position'], job['waiting_reason']]),
    ids.toReversed().map((id, i) => [id, 4 - i, 'paused']),
  );
  t.like((await at.ask('GET', `/jobs/${ids[2]}`)).body, { position: 3, waiting_reason: 'paused' });
  const byKey = await platform().client.call('GET', `/api/jobs/${ids[1]}`, { key: at.project.key });
  t.like(byKey.body, { position: 2, waiting_reason: 'paused' });

  const full = await at.ask('POST', `/functions/${at.fn.id}/invoke`, { body: { payload: 5 } });
  t.is(full.status, 429);
  t.is(full.body.code, 'queue_full');
  t.regex(full.headers.get('retry-after') ?? '', /^\d+$/);
  t.is((await at.ask('GET', '/jobs?type=function.invoke')).body.total, 4, 'nothing was accepted');
  const other = await scene('exports.handler = () => 1');
  await other.begin();

  await hold('resume');
  for (const id of ids) t.like(await at.jobWhen(id, 'succeeded'), { position: null, waiting_reason: null });
});
