import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const create = (token: string, body: unknown, headers: Record<string, string> = {}) =>
  platform().client.call('POST', '/projects', { token, body, headers });

const projectsNamed = async ({ db }: TestPlatform, name: string): Promise<number> =>
  (await db.query('select from projects where name = $1', [name])).length;

test('a project is usable when its creation is answered', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { name: 'Blog' });
  const got = await client.call('GET', `/projects/${project.id}`, { token: user.token });
  t.is(got.status, 200);
  t.like(got.body, { name: 'Blog', status: 'active', org_id: project.orgId });
  t.regex(project.dbName, /^plinth_[a-z0-9]{16}_p_/);
});

test('a project has the fields, defaults and forms that the contract names', async (t) => {
  const user = await platform().client.signUp();
  const { status, body } = await create(user.token, { name: 'My Café, 2nd edition' });
  t.is(status, 201);
  t.deepEqual(Object.keys(body).toSorted(), [
    'api_key',
    'branch_of',
    'created_at',
    'db_name',
    'expires_at',
    'exposed_schemas',
    'id',
    'name',
    'org_id',
    'plan',
    'publishable_key',
    'ref',
    'rest_url',
    'slug',
    'statement_timeouts',
    'status',
  ]);
  t.like(body, { name: 'My Café, 2nd edition', slug: 'my_cafe_2nd_edition', plan: 'free', status: 'active' });
  t.regex(body.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  t.regex(body.ref, /^[a-z][a-z0-9]{19}$/);
  t.is(body.db_name, `plinth_${body.org_id}_my_cafe_2nd_edition`);
  t.is(body.rest_url, `${platform().base}/p/${body.ref}`);
  t.regex(body.api_key, /^plinth_sk_/);
  t.regex(body.publishable_key, /^plinth_pk_/);
  t.regex(body.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('a slug is made of what a name has of a to z and digits', async (t) => {
  const user = await platform().client.signUp();
  const slugs = await Promise.all(
    ['1st try', '日本', 'x'.repeat(40)].map(async (name) => (await create(user.token, { name })).body.slug),
  );
  t.deepEqual(slugs, ['st_try', 'project', 'x'.repeat(31)]);
});

const badBodies: Record<string, unknown> = {
  'no name': {},
  'a blank name': { name: ' \t' },
  'a name that is a number': { name: 5 },
  'a name of 101 characters': { name: 'x'.repeat(101) },
  'a name with NUL': { name: 'a\0b' },
  'a name with a lone surrogate': { name: 'a\ud800' },
  'an empty slug': { name: 'a', slug: '' },
  'a slug with upper case': { name: 'a', slug: 'Blog' },
  'a slug that begins with a digit': { name: 'a', slug: '1a' },
  'a slug with a hyphen': { name: 'a', slug: 'a-b' },
  'a slug with a quote': { name: 'a', slug: 'a"b' },
  'a slug with a line break at its end': { name: 'a', slug: 'a\n' },
  'a slug of 32 characters': { name: 'a', slug: 'a'.repeat(32) },
  'an unknown plan': { name: 'a', plan: 'gold' },
  'an unknown field': { name: 'a', colour: 'red' },
  'an org_id that is not text': { name: 'a', org_id: 7 },
  'an array': [{ name: 'a' }],
};

for (const [what, body] of Object.entries(badBodies)) {
  test(`${what} is refused, and nothing is made`, async (t) => {
    const user = await platform().client.signUp();
    const answer = await create(user.token, body);
    t.is(answer.status, 400);
    t.is(answer.body.code, 'validation_failed');
    t.true(Array.isArray(answer.body.details) && answer.body.details.length > 0);
    const listed = await platform().client.call('GET', '/projects', { token: user.token });
    t.is(listed.body.total, 0);
  });
}

test('a slug is taken within its organization, and free in another', async (t) => {
  const { client } = platform();
  const [ann, ben] = [await client.signUp(), await client.signUp()];
  await client.createProject(ann, { slug: 'shop' });
  const again = await create(ann.token, { name: 'Other', slug: 'shop' });
  t.is(again.status, 409);
  t.is(again.body.code, 'slug_taken');
  t.is(await projectsNamed(platform(), 'Other'), 0);
  await client.createProject(ben, { slug: 'shop' });
});

test('of 50 creations with one slug at once exactly one is made', async (t) => {
  const user = await platform().client.signUp();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => create(user.token, { name: 'Race', slug: 'race' })),
  );
  const statuses = answers.map(({ status }) => status);
  t.is(statuses.filter((status) => status === 201).length, 1, statuses.join(' '));
  t.is(statuses.filter((status) => status === 409).length, 49, statuses.join(' '));
  t.is(await projectsNamed(platform(), 'Race'), 1);
});

test('20 projects at once are all made', async (t) => {
  const user = await platform().client.signUp();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => create(user.token, { name: 'Many', slug: `many_${i}` })),
  );
  t.deepEqual(
    answers.map(({ status, body }) => [status, body.status]),
    Array.from({ length: 20 }, () => [201, 'active']),
  );
});

test('a project goes into the organization that is named, for those who may', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const { orgId } = await client.createProject(owner);
  const developer = await addMember(platform(), orgId, 'developer');
  const viewer = await addMember(platform(), orgId, 'viewer');
  const made = await create(developer.token, { name: 'Theirs', org_id: orgId });
  t.is(made.status, 201);
  t.is(made.body.org_id, orgId);
  const refused = await create(viewer.token, { name: 'Not theirs', org_id: orgId });
  t.is(refused.status, 403);
  t.is(refused.body.code, 'forbidden');
});

test('an organization that is not the caller’s does not exist', async (t) => {
  const { client } = platform();
  const { orgId } = await client.createProject(await client.signUp());
  const stranger = await client.signUp();
  for (const org of [orgId, 'nosuchorganizatn']) {
    const answer = await create(stranger.token, { name: 'Intrusion', org_id: org });
    t.is(answer.status, 404);
    t.is(answer.body.code, 'not_found');
  }
  t.is(await projectsNamed(platform(), 'Intrusion'), 0);
});

test('a 202 makes the project but no keys, and its job can be followed', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const answer = await create(user.token, { name: 'Later' }, { prefer: 'respond-async' });
  t.is(answer.status, 202);
  t.deepEqual(Object.keys(answer.body).toSorted(), ['job_id', 'status']);
  t.is(answer.headers.get('preference-applied'), 'respond-async');
  const location = answer.headers.get('location') ?? '';
  t.regex(location, new RegExp(`^/projects/[0-9a-f-]{36}/jobs/${answer.body.job_id}$`));
  for (;;) {
    const { body } = await client.call('GET', location, { token: user.token });
    if (body.status !== 'queued' && body.status !== 'running') {
      t.like(body, { status: 'succeeded', type: 'project.provision', error: null });
      break;
    }
  }
  const [, , projectId] = location.split('/');
  t.is((await client.call('GET', `/projects/${projectId}`, { token: user.token })).body.status, 'active');
  t.is((await db.query('select from api_keys where project_id = $1', [projectId])).length, 0);
});
