import test from 'ava';
import { type Answer, type TestUser, uniqueName } from '#test/support/client.ts';
import { addMember, ownOrganization } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { settings: { PLINTH_FREE_PROJECTS_PER_ORG: '2' } });

const create = (user: TestUser, fields: object = {}): Promise<Answer> => {
  const slug = uniqueName('p');
  return platform().client.call('POST', '/projects', { token: user.token, body: { name: slug, slug, ...fields } });
};

const createMany = (user: TestUser, count: number, fields?: object): Promise<Answer[]> =>
  Promise.all(Array.from({ length: count }, () => create(user, fields)));

const presentIn = async (orgId: string): Promise<number> =>
  (await platform().db.query('select from projects where org_id = $1 and deleted_at is null', [orgId])).length;

test('of ten projects created at once on Free an organization gets as many as it may have, by whomever', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const orgId = await ownOrganization(platform(), owner);
  const colleague = await addMember(platform(), orgId, 'developer');
  const answers = (
    await Promise.all([createMany(owner, 5, { org_id: orgId }), createMany(colleague, 5, { org_id: orgId })])
  ).flat();
  t.deepEqual(statusCounts(answers), { 201: 2, 403: 8 });
  const refused = answers.find(({ status }) => status === 403);
  t.is(refused?.body.code, 'plan_limit_exceeded');
  t.truthy(refused?.body.hint);
  t.is(await presentIn(orgId), 2);
});

test('a refused project leaves neither a row nor a job', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const orgId = await ownOrganization(platform(), user);
  await createMany(user, 2);
  const slug = uniqueName('refused');
  t.is((await create(user, { slug })).status, 403);
  t.deepEqual(await db.query('select from projects where slug = $1', [slug]), []);
  const projects = await db.query<{ id: string }>('select id from projects where org_id = $1', [orgId]);
  t.is(projects.length, 2);
});

test('projects of other plans do not count, and those of other organizations neither', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  t.deepEqual(statusCounts(await createMany(user, 2)), { 201: 2 });
  t.is((await create(user, { plan: 'pro' })).status, 201);
  const other = await client.call('POST', '/team/orgs', { token: user.token, body: { org_name: 'Other' } });
  t.is((await create(user, { org_id: other.body.org_id })).status, 201);
});

test('a project comes back to Free only where there is room', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const [free] = await createMany(user, 2);
  const pro = await create(user, { plan: 'pro' });
  const toFree = (id: string) =>
    client.call('PATCH', `/projects/${id}`, { token: user.token, body: { plan: 'free', name: 'Smaller' } });
  const refused = await toFree(pro.body.id);
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  t.is((await toFree(free?.body.id)).status, 200);
  t.is((await client.call('DELETE', `/projects/${free?.body.id}`, { token: user.token })).status, 204);
  t.is((await toFree(pro.body.id)).status, 200);
});

test('a deleted project makes room, until too many deleted ones are kept', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const first = await client.createProject(user);
  t.is((await client.call('DELETE', `/projects/${first.id}`, { token: user.token })).status, 204);
  // Nine more, as if they had been created and deleted, too.
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key, created_by,
           deleted_at, retired_at)
         select gen_random_uuid(), 'r' || left(replace(gen_random_uuid()::text, '-', ''), 19), org_id, server_id, name,
           slug, plan, status, db_name, data_key, created_by, now(), now()
         from projects p, generate_series(1, 8) where p.id = $1`,
        [first.id],
      ),
    { 'plinth.actor': '{"type":"system"}' },
  );
  const tenth = await client.createProject(user);
  t.is((await client.call('DELETE', `/projects/${tenth.id}`, { token: user.token })).status, 204);
  const refused = await create(user);
  t.is(refused.status, 403);
  t.is(refused.body.code, 'plan_limit_exceeded');
  t.regex(refused.body.message, /still kept/);
  await db.transaction(
    (tx) =>
      tx.query(`delete from projects where created_by = $1 and name = $2 and id <> $3`, [
        user.id,
        first.slug,
        first.id,
      ]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  t.is((await create(user)).status, 201);
});
