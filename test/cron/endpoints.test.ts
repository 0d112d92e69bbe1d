import test from 'ava';
import {
  type Answer,
  type CallOptions,
  type TestFunction,
  type TestProject,
  type TestUser,
} from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { readyProject } from './ready-project.ts';

// No worker: what is asked for stays as it was asked for.
const platform = usePlatform(test, { worker: false });

let owner: TestUser;
let project: TestProject;
let fn: TestFunction;

test.before('a project on the pro plan has a function', async () => {
  owner = await platform().client.signUp();
  project = await readyProject(platform(), owner, 'pro');
  fn = await platform().client.deploy(owner, project, 'export const handler = () => 1;');
});

const call = (method: string, path = '', options: CallOptions = {}, of = project): Promise<Answer> =>
  platform().client.call(method, `/projects/${of.id}/cron${path}`, { token: owner.token, ...options });

const sql = { type: 'sql', sql: 'select 1' };
const nightly = { name: 'nightly', schedule: '30 2 * * *', target: sql };

const create = async (fields: object = {}): Promise<Answer['body']> => {
  const answer = await call('POST', '', { body: { ...nightly, ...fields } });
  if (answer.status !== 201) throw new Error(answer.text);
  return answer.body;
};

test('a schedule is created with the contract’s fields and defaults', async (t) => {
  const { status, body } = await call('POST', '', { body: nightly });
  t.is(status, 201);
  t.deepEqual(Object.keys(body).toSorted(), [
    'created_at',
    'deadline_ms',
    'enabled',
    'id',
    'jitter_ms',
    'last_run',
    'misfire',
    'name',
    'next_run_at',
    'overlap',
    'payload',
    'retry',
    'schedule',
    'target',
    'timeout_ms',
    'timezone',
    'updated_at',
  ]);
  t.like(body, { ...nightly, timezone: 'UTC', payload: null, enabled: true, overlap: 'skip', misfire: 'once' });
  t.is(body.last_run, null);
  t.regex(body.next_run_at, /T02:30:00\.000Z$/);
  t.deepEqual((await call('GET', `/${body.id}`)).body, body);
});

test('the list names the collection and total, and pages', async (t) => {
  const own = await readyProject(platform(), owner, 'pro');
  for (const name of ['a', 'b', 'c']) await call('POST', '', { body: { ...nightly, name } }, own);
  const { body } = await call('GET', '?limit=2&offset=1', {}, own);
  t.is(body.total, 3);
  t.deepEqual(
    body.schedules.map(({ name }: { name: string }) => name),
    ['b', 'c'],
  );
});

test('every target is taken, and a payload is kept exactly', async (t) => {
  const payload = '{"big":9007199254740995,"deep":[1e400,"\\u0000","\\ud800"]}';
  const targets = [{ type: 'function', function_id: fn.id }, { type: 'http', url: 'https://example.com/hook' }, sql];
  for (const target of targets) {
    const raw = `{"name":"x","schedule":"@daily","target":${JSON.stringify(target)},"payload":${payload}}`;
    const answer = await call('POST', '', { raw });
    t.is(answer.status, 201, answer.text);
    t.deepEqual(answer.body.target, target);
    t.true(answer.text.includes(`"payload":${payload}`), answer.text);
    const [row] = await platform().db.query<{ payload: string }>('select payload from schedules where id = $1', [
      answer.body.id,
    ]);
    t.is(row?.payload, payload);
  }
});

const changes: readonly [what: string, change: object, expected: object][] = [
  ['its name', { name: 'other' }, { name: 'other', schedule: '30 2 * * *' }],
  ['its payload', { payload: { a: 1 } }, { payload: { a: 1 } }],
  ['its rules', { overlap: 'queue', misfire: 'all' }, { overlap: 'queue', misfire: 'all' }],
  [
    'its target',
    { target: { type: 'http', url: 'http://example.com/' } },
    { target: { type: 'http', url: 'http://example.com/' } },
  ],
  ['its time zone', { timezone: 'europe/berlin' }, { timezone: 'Europe/Berlin' }],
];

for (const [what, change, expected] of changes) {
  test(`a change of ${what} changes nothing else`, async (t) => {
    const before = await create({ payload: [1] });
    const { status, body } = await call('PATCH', `/${before.id}`, { body: change });
    t.is(status, 200);
    const { updated_at: _updated, next_run_at: next, ...rest } = body;
    const { updated_at: _before, next_run_at: nextBefore, ...restBefore } = before;
    t.deepEqual(rest, { ...restBefore, ...expected });
    if (!('timezone' in change)) t.is(next, nextBefore);
    else t.not(next, nextBefore);
  });
}

test('a disabled schedule has no next run; enabled again, it counts from now', async (t) => {
  const { id, next_run_at: next } = await create();
  t.is((await call('PATCH', `/${id}`, { body: { enabled: false } })).body.next_run_at, null);
  t.is((await call('PATCH', `/${id}`, { body: { enabled: true } })).body.next_run_at, next);
  t.is((await create({ enabled: false })).next_run_at, null);
});

test('a schedule is deleted with its runs', async (t) => {
  const { id } = await create();
  await call('POST', `/${id}/run`);
  t.is((await call('DELETE', `/${id}`)).status, 204);
  for (const path of [`/${id}`, `/${id}/runs`]) isError(t, await call('GET', path), 404, 'not_found');
  isError(t, await call('DELETE', `/${id}`), 404, 'not_found');
  isError(t, await call('PATCH', `/${id}`, { body: {} }), 404, 'not_found');
  isError(t, await call('POST', `/${id}/run`), 404, 'not_found');
});

test('a schedule run now answers its run, whose job is where Location says', async (t) => {
  const { id } = await create();
  const { status, body, headers } = await call('POST', `/${id}/run`);
  t.is(status, 202);
  t.like(body, { status: 'queued', trigger: 'manual', reason: null, started_at: null, error: null });
  t.is(headers.get('location'), `/projects/${project.id}/jobs/${body.job_id}`);
  const job = await platform().client.call('GET', headers.get('location') ?? '', { token: owner.token });
  t.like(job.body, { id: body.job_id, type: 'cron.fire', status: 'queued' });
  const runs = await call('GET', `/${id}/runs`);
  t.deepEqual(runs.body, { runs: [body], total: 1 });
  t.deepEqual((await call('GET', `/${id}`)).body.last_run, body);
});

test('a run asked for twice with one Idempotency-Key is one run', async (t) => {
  const { id } = await create();
  const headers = { 'idempotency-key': `run-${id}` };
  const answers = await Promise.all([1, 2, 3].map(() => call('POST', `/${id}/run`, { headers })));
  t.is(new Set(answers.map(({ body }) => body.id)).size, 1);
  t.is((await call('GET', `/${id}/runs`)).body.total, 1);
});

test('a function that was deleted cannot be run now', async (t) => {
  const lost = await platform().client.deploy(owner, project, 'export const handler = () => 1;');
  const { id } = await create({ target: { type: 'function', function_id: lost.id } });
  await platform().client.call('DELETE', `/projects/${project.id}/functions/${lost.id}`, { token: owner.token });
  isError(t, await call('POST', `/${id}/run`), 409, 'conflict');
});

test('a project that is not active runs nothing now', async (t) => {
  const own = await readyProject(platform(), owner, 'pro');
  const { body } = await call('POST', '', { body: nightly }, own);
  await platform().db.transaction((tx) => tx.query(`update projects set status = 'paused' where id = $1`, [own.id]), {
    'plinth.actor': '{"type":"system"}',
  });
  isError(t, await call('POST', `/${body.id}/run`, {}, own), 409, 'project_not_ready');
});

test('schedules of another project are not there', async (t) => {
  const other = await readyProject(platform(), owner, 'pro');
  const { id } = await create();
  isError(t, await call('GET', `/${id}`, {}, other), 404, 'not_found');
  isError(t, await call('POST', `/${id}/run`, {}, other), 404, 'not_found');
});

test('viewers read, developers do the rest', async (t) => {
  const { id } = await create();
  const orgId = project.orgId;
  const [viewer, developer] = [
    await addMember(platform(), orgId, 'viewer'),
    await addMember(platform(), orgId, 'developer'),
  ];
  for (const path of ['', `/${id}`, `/${id}/runs`])
    t.is((await call('GET', path, { token: viewer.token })).status, 200);
  for (const [method, path, body] of [
    ['POST', '', nightly],
    ['PATCH', `/${id}`, { name: 'x' }],
    ['POST', `/${id}/run`, undefined],
    ['DELETE', `/${id}`, undefined],
  ] as const) {
    const refused = await call(method, path, { token: viewer.token, ...(body && { body }) });
    isError(t, refused, 403, 'forbidden');
    const served = await call(method, path, { token: developer.token, ...(body && { body }) });
    t.true(served.status < 300, served.text);
  }
});

test('changes are in the audit log, fires are not; payloads never are', async (t) => {
  const { id } = await create({ payload: 'a-secret-payload' });
  await call('PATCH', `/${id}`, { body: { enabled: false } });
  await platform().db.query('update schedules set next_run_at = now() where id = $1', [id]);
  const entries = await until(() =>
    platform().db.query<{ action: string; after: unknown }>(
      'select action, after from audit_entries where target_id = $1 order by id',
      [id],
    ),
  );
  t.deepEqual(
    entries.map(({ action }) => action),
    ['schedule.create', 'schedule.update'],
  );
  t.deepEqual(entries[1]?.after, { enabled: false });
  t.false(JSON.stringify(entries).includes('a-secret-payload'));
});
