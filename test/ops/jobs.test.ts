import test from 'ava';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test, { worker: false });

const ask = (method: string, path: string, body?: unknown) =>
  platform().client.call(method, `/ops/api${path}`, { token: opsToken, ...(body !== undefined && { body }) });

let shop: SeededProject;
let other: SeededProject;
let ids: string[] = [];

const required = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('it was seeded');
  return value;
};

test.before('jobs of two projects', async () => {
  const [first, second] = await seedProjects(platform().db, 2);
  shop = required(first);
  other = required(second);
  ids = await seedJobs(platform().db, [
    { projectId: shop.id, status: 'succeeded', secondsAgo: 50 },
    { projectId: shop.id, status: 'failed', errorCode: 'timeout', secondsAgo: 40 },
    { projectId: other.id, status: 'failed', errorCode: 'error', secondsAgo: 30 },
    { projectId: other.id, status: 'queued', secondsAgo: 20 },
    { projectId: other.id, type: 'project.provision', status: 'cancelled', errorCode: 'cancelled', secondsAgo: 10 },
  ]);
});

const idsOf = (answer: { body: { jobs: { id: string }[] } }): string[] => answer.body.jobs.map(({ id }) => id);

test.serial('jobs are found by id, project, type, status and error, newest first', async (t) => {
  const [succeeded = '', timeout = '', error = '', queued = '', cancelled = ''] = ids;
  const find = async (query: string) => idsOf(await ask('GET', `/jobs?${query}`)).filter((id) => ids.includes(id));
  t.deepEqual(await find(''), ids.toReversed());
  t.deepEqual(await find(`id=${error}`), [error]);
  t.deepEqual(await find(`project_id=${shop.id}`), [timeout, succeeded]);
  t.deepEqual(await find('type=project.provision&status=cancelled'), [cancelled]);
  t.deepEqual(await find('status=failed'), [error, timeout]);
  t.deepEqual(await find('error_code=timeout'), [timeout]);
  t.deepEqual(await find(`project_id=${other.id}&status=queued`), [queued]);
  t.deepEqual(await find(`project_id=${shop.id}&limit=1&offset=1`), [succeeded]);
});

test.serial('a list says how many there are', async (t) => {
  const { body } = await ask('GET', `/jobs?project_id=${shop.id}&limit=1`);
  t.like(body, { total: 2, total_is_exact: true });
  t.like(body.jobs[0], { project_ref: shop.ref, project_name: shop.name, error: { code: 'timeout' } });
});

test('queries that cannot be answered are 400', async (t) => {
  for (const query of [
    'limit=0',
    'limit=201',
    'limit=1e1',
    'offset=-1',
    'offset=0x0',
    'status=lost',
    'type=nonsense',
    'id=nonsense',
    'project_id=1',
  ]) {
    t.is((await ask('GET', `/jobs?${query}`)).status, 400, query);
  }
  for (const list of ['/projects', '/cron/upcoming', '/dead']) {
    t.is((await ask('GET', `${list}?limit=10`)).status, 200, list);
    t.is((await ask('GET', `${list}?limit=1e1`)).status, 400, list);
  }
  t.is((await ask('GET', `/jobs?error_code=${'x'.repeat(101)}`)).status, 400);
});

test('a job’s page has its payload, result, earlier attempts and log', async (t) => {
  const { db } = platform();
  const [id] = await seedJobs(db, [{ projectId: shop.id, status: 'succeeded' }]);
  await db.query(
    `insert into job_attempts (job_id, attempt, started_at, error_code, error_message)
     select $1, attempt, now(), 'dependency_unavailable', 'It was away.' from unnest(array[1, 2, 1]) as t (attempt)`,
    [id],
  );
  await db.query(`insert into job_log_parts (job_id, first_line, lines, body) values ($1, 1, 2, $2)`, [
    id,
    [
      { ts: new Date().toISOString(), level: 'info', message: 'one' },
      { ts: new Date().toISOString(), level: 'error', message: 'two' },
    ]
      .map((line) => JSON.stringify(line))
      .join(','),
  ]);
  const { body } = await ask('GET', `/jobs/${id}`);
  t.is(JSON.parse(body.payload).trigger, 'api');
  t.is(body.payload_length, body.payload.length);
  t.deepEqual(JSON.parse(body.result).result, { ok: true });
  t.is(body.attempts[0].error.code, 'dependency_unavailable');
  t.deepEqual(
    body.attempts.map(({ attempt }: { attempt: number }) => attempt),
    [1, 2, 1],
    'as they happened: a job that is run again begins with its first attempt',
  );
  t.deepEqual(
    body.logs.map(({ level, message }: { level: string; message: string }) => [level, message]),
    [
      ['info', 'one'],
      ['error', 'two'],
    ],
  );
  t.is(body.place, null);
});

test('a long payload is cut, and its length is said', async (t) => {
  const [id] = await seedJobs(platform().db, [{ projectId: shop.id, status: 'succeeded' }]);
  await platform().db.query('update jobs set data = repeat($2, 100000) where id = $1', [id, 'x']);
  const { body } = await ask('GET', `/jobs/${id}`);
  t.is(body.payload.length, 65_536);
  t.is(body.payload_length, 100_000);
});

test('a failed job is retried under its id, a succeeded one is not', async (t) => {
  const [failed, succeeded] = await seedJobs(platform().db, [
    { projectId: shop.id, status: 'failed', errorCode: 'timeout' },
    { projectId: shop.id, status: 'succeeded' },
  ]);
  const answer = await ask('POST', `/jobs/${failed}/retry`);
  t.is(answer.status, 202);
  t.like(answer.body, { id: failed, status: 'queued', error: null, attempt: 0 });
  t.is((await ask('POST', `/jobs/${succeeded}/retry`)).status, 409);
});

test('a waiting job is cancelled once', async (t) => {
  const [waiting] = await seedJobs(platform().db, [{ projectId: shop.id, status: 'queued' }]);
  const answer = await ask('POST', `/jobs/${waiting}/cancel`);
  t.is(answer.status, 200);
  t.is(answer.body.status, 'cancelled');
  t.is((await ask('POST', `/jobs/${waiting}/cancel`)).status, 409);
});

test('a job that is not there is 404 for every action', async (t) => {
  for (const id of [crypto.randomUUID(), 'nonsense']) {
    t.is((await ask('GET', `/jobs/${id}`)).status, 404);
    t.is((await ask('POST', `/jobs/${id}/retry`)).status, 404);
    t.is((await ask('POST', `/jobs/${id}/cancel`)).status, 404);
  }
});

const deadOf = async (projectId: string): Promise<string[]> => idsOf(await ask('GET', `/dead?project_id=${projectId}`));

test.serial('dead letters are listed with how many there are of each kind', async (t) => {
  const [letter] = await seedJobs(platform().db, [dead(shop.id, { errorCode: 'listed' })]);
  const { body } = await ask('GET', '/dead?error_code=listed');
  t.deepEqual(idsOf({ body }), [letter]);
  t.true(
    body.groups.some(
      (group: { error_code: string; count: number }) => group.error_code === 'listed' && group.count === 1,
    ),
  );
});

test.serial('dead letters of a project are found and redriven by its name', async (t) => {
  const [own, other] = await seedProjects(platform().db, 2);
  const { id, ref } = required(own);
  const [letter] = await seedJobs(platform().db, [dead(id), dead(required(other).id)]);
  t.deepEqual(idsOf(await ask('GET', `/dead?project=${ref}`)), [letter]);
  t.deepEqual(idsOf(await ask('GET', `/dead?project=${ref}&project_id=${required(other).id}`)), []);
  t.deepEqual((await ask('POST', '/dead/redrive', { project: 'nobody has this name' })).body, {
    redriven: 0,
    remaining: 0,
  });
  t.deepEqual((await ask('POST', '/dead/redrive', { project: ref })).body, { redriven: 1, remaining: 0 });
  t.is((await deadOf(required(other).id)).length, 1);
});

test.serial('chosen dead letters are redriven and no others', async (t) => {
  const [project] = await seedProjects(platform().db, 1);
  const id = required(project).id;
  const [one = '', two = '', three = ''] = await seedJobs(platform().db, [dead(id), dead(id), dead(id)]);
  const { body } = await ask('POST', '/dead/redrive', { ids: [one, three] });
  t.deepEqual(body, { redriven: 2, remaining: 0 });
  t.deepEqual(await deadOf(id), [two]);
  t.is((await ask('GET', `/jobs/${one}`)).body.status, 'queued');
});

test.serial('redriving what is not dead changes nothing', async (t) => {
  const [failed] = await seedJobs(platform().db, [{ projectId: shop.id, status: 'failed', errorCode: 'error' }]);
  const { body } = await ask('POST', '/dead/redrive', { ids: [failed] });
  t.deepEqual(body, { redriven: 0, remaining: 0 });
  t.is((await ask('GET', `/jobs/${failed}`)).body.status, 'failed');
});

test.serial('dead letters are redriven by filter, 200 a call, and then all', async (t) => {
  const [project] = await seedProjects(platform().db, 1);
  const projectId = required(project).id;
  await seedJobs(
    platform().db,
    Array.from({ length: 203 }, () => dead(projectId, { errorCode: 'many' })),
  );
  await seedJobs(platform().db, [dead(projectId, { errorCode: 'other' })]);
  const first = await ask('POST', '/dead/redrive', { project_id: projectId, error_code: 'many' });
  t.deepEqual(first.body, { redriven: 200, remaining: 3 });
  const second = await ask('POST', '/dead/redrive', { project_id: projectId, error_code: 'many' });
  t.deepEqual(second.body, { redriven: 3, remaining: 0 });
  t.is((await deadOf(projectId)).length, 1);
  const all = await ask('POST', '/dead/redrive', { all: true });
  t.is(all.body.remaining, 0);
  t.deepEqual(await deadOf(projectId), []);
});

test('a redrive must say of what', async (t) => {
  for (const body of [
    {},
    { all: false },
    { ids: [] },
    { ids: ['nonsense'] },
    { type: 'nonsense' },
    { everything: true },
  ]) {
    t.is((await ask('POST', '/dead/redrive', body)).status, 400, JSON.stringify(body));
  }
});
