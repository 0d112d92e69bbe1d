import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

test('projects are listed newest first, page by page', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const ids: string[] = [];
  for (const slug of ['a', 'b', 'c']) ids.unshift((await client.createProject(user, { slug })).id);
  const list = (query: string) => client.call('GET', `/projects${query}`, { token: user.token });
  const all = await list('');
  t.is(all.status, 200);
  t.deepEqual(
    all.body.projects.map((project: { id: string }) => project.id),
    ids,
  );
  t.is(all.body.total, 3);
  t.false(all.text.includes('api_key'));
  const page = await list('?limit=1&offset=1');
  t.deepEqual([page.body.projects[0].id, page.body.projects.length, page.body.total], [ids[1], 1, 3]);
  t.deepEqual((await list('?offset=9')).body, { projects: [], total: 3 });
  t.is((await list('?colour=red')).status, 200);
});

for (const query of ['limit=0', 'limit=201', 'limit=-1', 'limit=ten', 'limit=1.5', 'offset=-1', 'limit=1&limit=2']) {
  test(`a list with ${query} is refused, not clamped`, async (t) => {
    const { client } = platform();
    const user = await client.signUp();
    const { status, body } = await client.call('GET', `/projects?${query}`, { token: user.token });
    t.is(status, 400);
    t.is(body.code, 'validation_failed');
  });
}

test('the list holds the projects of all organizations of the caller, and of one when asked', async (t) => {
  const { client } = platform();
  const [ann, ben] = [await client.signUp(), await client.signUp()];
  const first = await client.createProject(ann);
  const second = await client.createProject(ben);
  const both = await addMember(platform(), first.orgId, 'viewer');
  const list = async (query = '') =>
    (await client.call('GET', `/projects${query}`, { token: both.token })).body.projects.map(
      (project: { id: string }) => project.id,
    );
  t.deepEqual(await list(), [first.id]);
  t.deepEqual(await list(`?org_id=${first.orgId}`), [first.id]);
  t.deepEqual(await list(`?org_id=${second.orgId}`), []);
});

test('a project is renamed by developers; its slug, database and keys stay', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const developer = await addMember(platform(), project.orgId, 'developer');
  const path = `/projects/${project.id}`;
  const { status, body } = await client.call('PATCH', path, { token: developer.token, body: { name: 'New' } });
  t.is(status, 200);
  t.like(body, { id: project.id, name: 'New', slug: project.slug, db_name: project.dbName, plan: 'free' });
  const same = await client.call('PATCH', path, { token: developer.token, body: {} });
  t.like(same.body, { name: 'New', plan: 'free' });
});

test('a plan is changed by owners only', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const admin = await addMember(platform(), project.orgId, 'admin');
  const path = `/projects/${project.id}`;
  const refused = await client.call('PATCH', path, { token: admin.token, body: { name: 'X', plan: 'pro' } });
  t.is(refused.status, 403);
  const changed = await client.call('PATCH', path, { token: owner.token, body: { plan: 'enterprise' } });
  t.like(changed.body, { plan: 'enterprise', name: project.slug });
});

test('a change with wrong or unknown fields is refused', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  for (const body of [{ slug: 'other' }, { plan: 'gold' }, { name: '' }, { name: null }, { status: 'paused' }]) {
    const answer = await client.call('PATCH', `/projects/${project.id}`, { token: owner.token, body });
    t.is(answer.status, 400, JSON.stringify(body));
  }
});

test('what is deleted is gone for members, keys and lists at once', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const fn = await client.deploy(owner, project, 'exports.handler = () => 1');
  const gone = await client.call('DELETE', `/projects/${project.id}`, { token: owner.token });
  t.is(gone.status, 204);
  t.is(gone.text, '');
  const path = `/projects/${project.id}`;
  const calls: [string, string, unknown?][] = [
    ['GET', path],
    ['PATCH', path, { name: 'X' }],
    ['DELETE', path],
    ['GET', `${path}/api-keys`],
    ['POST', `${path}/api-keys`, { name: 'k', kind: 'secret' }],
    ['GET', `${path}/functions`],
    ['GET', `${path}/functions/${fn.id}`],
    ['POST', `${path}/functions/${fn.id}/invoke`, { payload: 1 }],
    ['GET', `${path}/jobs/${project.id}`],
  ];
  for (const [method, url, body] of calls) {
    const answer = await client.call(method, url, { token: owner.token, body });
    t.is(answer.status, 404, `${method} ${url}`);
  }
  for (const key of [project.key, project.publishableKey])
    t.is((await client.call('POST', `/api/functions/${fn.slug}`, { key, body: 1 })).status, 401);
  t.is((await client.call('GET', '/projects', { token: owner.token })).body.total, 0);
});

test('only owners delete a project', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  const admin = await addMember(platform(), project.orgId, 'admin');
  const answer = await client.call('DELETE', `/projects/${project.id}`, { token: admin.token });
  t.is(answer.status, 403);
});

const oldTableIn = (name: string): Promise<string | null> =>
  asAdmin(name, async (db) => (await db.query(`select to_regclass('public.old') as name`)).rows[0].name);

test('after a deletion the slug is free at once, and the new project’s database is fresh', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const first = await client.createProject(owner, { slug: 'again' });
  await asAdmin(first.dbName, (db) => db.query('create table public.old (id int)'));
  await client.call('DELETE', `/projects/${first.id}`, { token: owner.token });
  const second = await client.createProject(owner, { slug: 'again' });
  t.not(second.id, first.id);
  t.is(second.dbName, first.dbName);
  t.is(await oldTableIn(second.dbName), null);
  // The old one is kept, closed, under another name.
  const [kept] = (
    await asAdmin('postgres', (db) =>
      db.query('select datallowconn from pg_database where datname = $1', [`plinth_deleted_${first.ref}`]),
    )
  ).rows;
  t.deepEqual(kept, { datallowconn: false });
});

test('a project that does not exist and one that is foreign answer alike', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  const stranger = await client.signUp();
  const bodies = await Promise.all(
    [project.id, '00000000-0000-7000-8000-000000000000', 'nonsense'].map(async (id) => {
      const answer = await client.call('GET', `/projects/${id}`, { token: stranger.token });
      t.is(answer.status, 404);
      const { request_id: _, ...rest } = answer.body;
      return rest;
    }),
  );
  t.deepEqual(bodies[0], bodies[1]);
  t.deepEqual(bodies[0], bodies[2]);
});
