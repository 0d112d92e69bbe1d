import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const code = 'exports.handler = () => 1';

let user: TestUser;
let project: TestProject;
let path: string;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
  path = `/projects/${project.id}/functions`;
});

const call = (method: string, url: string, body?: unknown) =>
  platform().client.call(method, url, { token: user.token, body });
const create = (fields: Record<string, unknown>) =>
  call('POST', path, { name: 'fn', language: 'javascript', code, ...fields });

const versionsOf = (id: string) =>
  platform().db.query<{ version: number; code: string; timeout_ms: number; created_at: Date }>(
    'select version, code, timeout_ms, created_at from function_versions where function_id = $1 order by version',
    [id],
  );

test('a function has the fields and defaults that the contract names', async (t) => {
  const made = await create({ name: 'Send Invoice (v2)' });
  t.is(made.status, 201);
  t.deepEqual(Object.keys(made.body).toSorted(), [
    'access',
    'batch',
    'code',
    'created_at',
    'debounce_ms',
    'entry_point',
    'entrypoint',
    'env_vars',
    'id',
    'language',
    'memory_mb',
    'name',
    'on_failure_function_id',
    'rate',
    'retry',
    'slug',
    'timeout_ms',
    'updated_at',
    'version',
  ]);
  t.like(made.body, {
    slug: 'send-invoice-v2',
    name: 'Send Invoice (v2)',
    language: 'javascript',
    access: 'key',
    entry_point: 'handler',
    code,
    timeout_ms: 10_000,
    memory_mb: 256,
    env_vars: {},
    version: 1,
  });
  const got = await call('GET', `${path}/${made.body.id}`);
  t.deepEqual(got.body, { ...made.body, files: null, warm_start: null });
});

for (const [name, slug] of [
  ['Crème Brûlée', 'creme-brulee'],
  ['sendInvoiceNow', 'send-invoice-now'],
  ['  --a__b--  ', 'a-b'],
  ['x'.repeat(100), 'x'.repeat(63)],
  ['2fa', '2fa'],
] as const) {
  test(`the slug of ${name} is ${slug}`, async (t) => {
    const made = await create({ name });
    t.is(made.status, 201);
    t.is(made.body.slug, slug);
    t.is((await platform().client.call('POST', `/api/functions/${slug}`, { key: project.key })).status, 200);
  });
}

test('a name without a letter or digit of ASCII is refused', async (t) => {
  for (const name of ['日本', '!!!', '😀']) {
    const { status, body } = await create({ name });
    t.is(status, 400);
    t.is(body.details[0].path, 'name');
  }
});

test('a slug is taken within its project and free in another', async (t) => {
  t.is((await create({ name: 'Taken' })).status, 201);
  const again = await create({ name: 'taken!' });
  t.is(again.status, 409);
  t.is(again.body.code, 'slug_taken');
  const other = await platform().client.createProject(user);
  await platform().client.deploy(user, other, code, { name: 'Taken' });
});

test('of 20 deployments of one name at once exactly one is made', async (t) => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => create({ name: 'race' })));
  const statuses = answers.map(({ status }) => status);
  t.is(statuses.filter((status) => status === 201).length, 1);
  t.is(statuses.filter((status) => status === 409).length, 19, statuses.join(' '));
});

test('functions are listed in order of creation, without their code', async (t) => {
  const own = await platform().client.createProject(user);
  for (const name of ['a', 'b', 'c'])
    await platform().client.deploy(user, own, code, { name, env_vars: { A: 'secret' } });
  const list = (query: string) => call('GET', `/projects/${own.id}/functions${query}`);
  const all = await list('');
  t.deepEqual(
    all.body.functions.map(({ slug }: { slug: string }) => slug),
    ['a', 'b', 'c'],
  );
  t.is(all.body.total, 3);
  t.false('code' in all.body.functions[0]);
  t.deepEqual(all.body.functions[0].env_vars, { A: '********' });
  const page = await list('?limit=1&offset=2');
  t.deepEqual([page.body.functions[0].slug, page.body.total], ['c', 3]);
  for (const query of ['?limit=0', '?limit=201', '?offset=-1']) t.is((await list(query)).status, 400);
});

test('each change of what a run depends on is a version; a rename is none and keeps the slug', async (t) => {
  const { body: made } = await create({ name: 'Versions' });
  const url = `${path}/${made.id}`;
  const changes = [
    { code: 'exports.handler = exports.main = () => 2' },
    { entry_point: 'main' },
    { timeout_ms: 5000 },
    { memory_mb: 128 },
    { env_vars: { A: '1' } },
  ];
  let version = 1;
  for (const change of changes) {
    version += 1;
    const { status, body } = await call('PATCH', url, change);
    t.is(status, 200);
    t.is(body.version, version, JSON.stringify(change));
  }
  const renamed = await call('PATCH', url, { name: 'Other name' });
  t.like(renamed.body, { version, name: 'Other name', slug: 'versions' });
  t.is((await call('PATCH', url, {})).body.version, version);
  const kept = await versionsOf(made.id);
  t.deepEqual(
    kept.map((row) => row.version),
    [1, 2, 3, 4, 5],
  );
  t.is(kept[0]?.code, code);
  t.is(kept[0]?.created_at.toISOString(), made.created_at);
  t.is(kept[2]?.timeout_ms, 10_000);
});

test('a version keeps the time of its deployment, whatever was renamed meanwhile', async (t) => {
  const { body: made } = await create({ name: 'Dated' });
  const url = `${path}/${made.id}`;
  await call('PATCH', url, { name: 'Renamed' });
  await call('PATCH', url, { name: 'Again', timeout_ms: 500 });
  const [first] = await versionsOf(made.id);
  t.is(first?.created_at.toISOString(), made.created_at);
});

test('of 20 changes at once each makes a version of its own', async (t) => {
  const { body: made } = await create({ name: 'Crowd' });
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => call('PATCH', `${path}/${made.id}`, { timeout_ms: 1000 + i })),
  );
  const versions = answers.map(({ body }) => body.version).toSorted((a, b) => a - b);
  t.deepEqual(
    versions,
    Array.from({ length: 20 }, (_, i) => i + 2),
  );
  t.is((await versionsOf(made.id)).length, 20);
});

test('a change that is refused changes nothing', async (t) => {
  const { body: made } = await create({ name: 'Firm' });
  const url = `${path}/${made.id}`;
  for (const change of [{ timeout_ms: 1 }, { code: 'return (' }, { language: 'python' }, { slug: 'x' }, { code: null }])
    t.is((await call('PATCH', url, change)).status, 400, JSON.stringify(change));
  t.deepEqual((await call('GET', url)).body, { ...made, files: null, warm_start: null });
});

test('env vars are masked, merged, kept by their mask and deleted by null', async (t) => {
  const { body: made } = await create({ name: 'Env', env_vars: { A: 'first', B: 'second', C: 'third' } });
  t.deepEqual(made.env_vars, { A: '********', B: '********', C: '********' });
  const changed = await call('PATCH', `${path}/${made.id}`, {
    env_vars: { A: '********', B: null, C: 'new', D: 'fourth', E: null },
    code: 'exports.handler = () => ({ ...process.env })',
  });
  t.deepEqual(changed.body.env_vars, { A: '********', C: '********', D: '********' });
  const run = await platform().client.invoke(user, project, made, null);
  t.deepEqual(run.body.result, { A: 'first', C: 'new', D: 'fourth' });
});

test('no env var is in the control database, the audit log, the log or an answer in clear', async (t) => {
  const secret = 'hunter2-and-something-unmistakable';
  const { body: made, text } = await create({ name: 'Secret', env_vars: { TOKEN: secret } });
  await call('PATCH', `${path}/${made.id}`, { env_vars: { OTHER: secret } });
  for (const table of ['functions', 'function_versions', 'audit_entries', 'jobs']) {
    const rows = await platform().db.query<{ row: string }>(`select x::text as row from ${table} x`);
    const hex = Buffer.from(secret).toString('hex');
    t.false(
      rows.some(({ row }) => row.includes(secret) || row.includes(hex)),
      table,
    );
  }
  t.false(platform().logged().includes(secret));
  t.false(text.includes(secret));
});

test('who may do what with functions', async (t) => {
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const developer = await addMember(platform(), project.orgId, 'developer');
  const stranger = await platform().client.signUp();
  const { body: made } = await create({ name: 'Roles' });
  const url = `${path}/${made.id}`;
  const as = async (token: string) => {
    const statusOf = async (method: string, to: string, body?: unknown) =>
      (await platform().client.call(method, to, { token, body })).status;
    return [
      await statusOf('GET', path),
      await statusOf('GET', url),
      await statusOf('POST', path, { name: `by ${token.slice(-9)}`, language: 'javascript', code }),
      await statusOf('PATCH', url, { timeout_ms: 1000 }),
      await statusOf('POST', `${url}/invoke`, { payload: 1 }),
    ];
  };
  t.deepEqual(await as(viewer.token), [200, 200, 403, 403, 403]);
  t.deepEqual(await as(developer.token), [200, 200, 201, 200, 200]);
  t.deepEqual(await as(stranger.token), [404, 404, 404, 404, 404]);
});

test('a deleted function and one of another project do not exist', async (t) => {
  const { body: made } = await create({ name: 'Short lived' });
  const other = await platform().client.createProject(user);
  const attempts = (base: string): [string, string, unknown?][] => [
    ['GET', `${base}/${made.id}`],
    ['PATCH', `${base}/${made.id}`, { name: 'x' }],
    ['PATCH', `${base}/${made.id}`, { timeout_ms: 1000 }],
    ['POST', `${base}/${made.id}/invoke`, { payload: 1 }],
    ['DELETE', `${base}/${made.id}`],
  ];
  for (const [method, url, body] of attempts(`/projects/${other.id}/functions`))
    t.is((await call(method, url, body)).status, 404, `${method} of another project`);
  t.is((await call('DELETE', `${path}/${made.id}`)).status, 204);
  for (const [method, url, body] of attempts(path)) t.is((await call(method, url, body)).status, 404, method);
  t.is((await platform().client.call('POST', `/api/functions/${made.slug}`, { key: project.key })).status, 404);
  // Its name is free again, and its versions begin anew.
  t.like((await create({ name: 'Short lived' })).body, { slug: 'short-lived', version: 1 });
});
