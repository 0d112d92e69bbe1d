import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const ask = (method: string, path: string, body?: unknown) =>
  platform().client.call(method, `/ops/api${path}`, { token: opsToken, ...(body !== undefined && { body }) });

const restore = (id: string, body: object = {}) => ask('POST', `/projects/${id}/restore`, body);

const sql = (user: TestUser, { id }: TestProject, text: string) =>
  platform().client.call('POST', `/projects/${id}/db/query`, { token: user.token, body: { sql: text } });

const notes = ({ key }: TestProject) => platform().client.call('GET', '/v1/rest/notes', { key });

/** A project with a row in a table that says whose it is. */
const projectWithNotes = async (
  user: TestUser,
  text: string,
  fields: Readonly<Record<string, unknown>> = {},
): Promise<TestProject> => {
  const project = await platform().client.createProject(user, fields);
  const made = await sql(user, project, `create table notes as select '${text}'::text as text`);
  if (made.status !== 200) throw new Error(made.text);
  return project;
};

/** Deletes it and waits until its database is closed and renamed. */
const deleteProject = async (user: TestUser, { id }: TestProject): Promise<void> => {
  await platform().client.call('DELETE', `/projects/${id}`, { token: user.token });
  await until(async () => {
    const rows = await platform().db.query('select from projects where id = $1 and retired_at is not null', [id]);
    return rows.length > 0;
  });
};

test('a deleted project comes back with its database, keys, functions, schedules and webhooks', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await projectWithNotes(user, 'kept');
  const greet = await client.deploy(user, project, 'export const handler = (p) => `hello ${p}`');
  const cron = {
    name: 'Nightly',
    schedule: '0 3 * * *',
    timezone: 'UTC',
    target: { type: 'function', function_id: greet.id },
  };
  const path = `/projects/${project.id}`;
  t.is((await client.call('POST', `${path}/cron`, { token: user.token, body: cron })).status, 201);
  const webhook = { url: 'http://127.0.0.1:9/', events: ['table.notes.INSERT'] };
  t.is((await client.call('POST', `${path}/integrations/webhooks`, { token: user.token, body: webhook })).status, 201);
  await deleteProject(user, project);
  t.is((await notes(project)).status, 401);

  const listed = await ask('GET', '/projects/deleted');
  const found = listed.body.projects.find((one: { project_id: string }) => one.project_id === project.id);
  t.like(found, { slug: project.slug, slug_taken: false, org_deleted: false });

  const answer = await restore(project.id);
  t.deepEqual([answer.status, answer.body.status, answer.body.slug], [200, 'active', project.slug], answer.text);
  t.deepEqual((await notes(project)).body, [{ text: 'kept' }]);
  t.is(
    (await client.call('POST', `/api/functions/${greet.slug}`, { key: project.key, body: 'again' })).body,
    'hello again',
  );
  const schedules = await db.query<{ due: boolean }>(
    'select due_at is not null and due_at > now() as due from schedules where project_id = $1',
    [project.id],
  );
  t.deepEqual(schedules, [{ due: true }]);
  const hooks = await client.call('GET', `${path}/integrations/webhooks`, { token: user.token });
  t.is(hooks.body.total, 1);
  const entries = await db.query<{ actor_type: string }>(
    `select actor ->> 'type' as actor_type from audit_entries where project_id = $1 and action = 'project.restore'`,
    [project.id],
  );
  t.deepEqual([...new Set(entries.map((entry) => entry.actor_type))], ['operator']);
  t.is((await restore(project.id)).status, 409, 'it is not deleted any more');
});

test('when the slug was taken meanwhile it is restored under another one, and both keep their data', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const first = await projectWithNotes(user, 'first', { slug: 'shop' });
  await deleteProject(user, first);
  const second = await projectWithNotes(user, 'second', { slug: 'shop' });
  const refused = await restore(first.id);
  t.deepEqual([refused.status, refused.body.code], [409, 'slug_taken']);
  t.regex(refused.body.hint, /another `slug`/);
  t.is((await restore(first.id, { slug: 'No Slug' })).status, 400);
  const answer = await restore(first.id, { slug: 'shop_before' });
  t.deepEqual([answer.status, answer.body.slug], [200, 'shop_before'], answer.text);
  t.deepEqual((await notes(first)).body, [{ text: 'first' }]);
  t.deepEqual((await notes(second)).body, [{ text: 'second' }]);
  await deleteProject(user, first);
  t.deepEqual((await notes(second)).body, [{ text: 'second' }], 'and can be deleted again');
});

test('a project whose deletion has not been finished is restored, too', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await projectWithNotes(user, 'open');
  await db.transaction(
    (tx) => tx.query(`update projects set deleted_at = now(), status = 'deleting' where id = $1`, [project.id]),
    systemActor,
  );
  t.is((await restore(project.id)).status, 200);
  t.deepEqual((await notes(project)).body, [{ text: 'open' }]);
});

test('what is not deleted, is gone for good or is not there is refused, and so is everybody but operators', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  t.is((await restore(project.id)).status, 409);
  t.is((await restore(crypto.randomUUID())).status, 404);
  await deleteProject(user, project);
  const asUser = await client.call('POST', `/ops/api/projects/${project.id}/restore`, { token: user.token, body: {} });
  t.is(asUser.status, 401);
  await db.transaction(
    (tx) => tx.query(`update projects set deleted_at = now() - interval '8 days' where id = $1`, [project.id]),
    systemActor,
  );
  t.is((await restore(project.id)).status, 410);
});
