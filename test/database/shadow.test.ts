import test from 'ava';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { dropLostShadows } from '#domain/database-servers/shadow.ts';
import { schemaOfMigrations } from '#domain/database/shadow.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { until } from '#test/support/until.ts';
import { everything } from './schema-sql-scene.ts';

const platform = usePlatform(test);

let user: TestUser;
let opened: Platform;

test.before('somebody is there', async () => {
  user = await platform().client.signUp();
  opened = await openPlatform(platform().config, memoryLog().log);
});
test.after.always(() => opened.close());

const shadowOf = (project: TestProject): string => `plinth_shadow_${project.ref}`;

const isThere = (database: string): Promise<boolean> =>
  asAdmin('postgres', async (admin) => {
    const { rows } = await admin.query('select from pg_database where datname = $1', [database]);
    return rows.length > 0;
  });

const shadow = (project: TestProject, migrations: unknown, token = user.token): Promise<Answer> =>
  platform().client.call('POST', `/projects/${project.id}/db/shadow`, { token, body: { migrations } });

test('a shadow answers the schema that a push makes, and is gone afterwards', async (t) => {
  const { client } = platform();
  const project = await client.createProject(user, { plan: 'pro' });
  const migrations = [
    { name: '1_everything', sql: everything },
    { name: '2_more', sql: 'create table late (id int primary key); insert into late values (1);' },
  ];
  const answer = await shadow(project, migrations);
  t.is(answer.status, 200, answer.text);
  t.regex(answer.headers.get('content-type') ?? '', /^application\/sql/);
  const path = `/projects/${project.id}/db`;
  t.is((await client.call('GET', `${path}/tables`, { token: user.token })).body.length, 0, 'the project is as it was');
  t.false(await isThere(shadowOf(project)));
  const pushed = await client.call('POST', `${path}/migrations`, { token: user.token, body: { migrations } });
  t.is(pushed.status, 200, pushed.text);
  t.is((await client.call('GET', `${path}/schema.sql`, { token: user.token })).text, answer.text);
});

test('without migrations it is what an empty project has', async (t) => {
  const project = await platform().client.createProject(user);
  const { text } = await platform().client.call('GET', `/projects/${project.id}/db/schema.sql`, { token: user.token });
  t.is((await shadow(project, [])).text, text);
});

test('a migration that fails is named with its place, and nothing is left', async (t) => {
  const project = await platform().client.createProject(user);
  const migrations = [
    { name: '1_good', sql: 'create table rooms (id int primary key)' },
    { name: '2_bad', sql: 'insert into rooms\nvalues (now)' },
  ];
  const { status, body } = await shadow(project, migrations);
  t.is(status, 400);
  t.is(body.code, '42703');
  t.like(body.details, { migration: '2_bad', step: 2, line: 2 });
  t.false(await isThere(shadowOf(project)));
  t.is((await shadow(project, [migrations[0]])).status, 200);
});

test('requests of one project at once get their answers one after the other', async (t) => {
  const project = await platform().client.createProject(user);
  const answers = await Promise.all(
    ['a', 'b', 'c'].map((name) => shadow(project, [{ name: '1', sql: `create table ${name} (id int)` }])),
  );
  t.deepEqual(
    answers.map(({ status, text }) => [status, /create table public\.(\w)/.exec(text)?.[1]]),
    [
      [200, 'a'],
      [200, 'b'],
      [200, 'c'],
    ],
  );
});

const limits = { maxBytes: 256 * 1024 * 1024, maxMs: 180_000 };

test('migrations that fill the disk or never end are stopped', async (t) => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const run = (sql: string, of: Partial<typeof limits>) =>
    schemaOfMigrations(opened.projects, {
      projectId: project.id,
      steps: [{ name: '1', sql }],
      limits: { ...limits, ...of },
    });
  const rows = `create table t (body text); alter table t alter column body set storage external;
    do $$ begin loop insert into t values (repeat('x', 1000000)); end loop; end $$`;
  await t.throwsAsync(run(rows, { maxBytes: 40 * 1024 * 1024 }), { code: 'payload_too_large' });
  await t.throwsAsync(run('do $$ begin loop perform 1; end loop; end $$', { maxMs: 600 }), { code: 'request_timeout' });
  t.false(await isThere(shadowOf(project)));
});

const canLock = (name: string): Promise<boolean> =>
  asAdmin('postgres', async (admin) => {
    const { rows } = await admin.query<{ locked: boolean }>(
      'select pg_try_advisory_lock(hashtextextended($1, 0)) as locked',
      [name],
    );
    return rows[0]?.locked ?? false;
  });

test('nobody else enters a shadow, and its own roles find nothing of the project in it', async (t) => {
  const { client } = platform();
  const [project, other] = [await client.createProject(user), await client.createProject(user)];
  const strange = { ...(await tenantLogin(platform(), other.id, 'owner')), database: shadowOf(project) };
  await opened.projects.withShadow(project.id, async (ways) => {
    t.true(await isThere(shadowOf(project)));
    t.is(await sqlStateOf(asTenant(strange, () => Promise.resolve())), '42501');
    const { rows } = await ways.use(project.id, 'owner', (tenant) => tenant.query('select current_database() as name'));
    t.truthy(rows[0]);
    // Meanwhile another process finds it in use.
    t.is(await canLock(shadowOf(project)), false);
  });
  t.true(await canLock(shadowOf(project)));
});

test('what a dead process left is dropped, and what another uses is not', async (t) => {
  const { db, servers } = opened;
  const [server] = await db.query<{ id: string }>('select id from database_servers');
  const project = await platform().client.createProject(user);
  const [lost, used] = [`plinth_shadow_lost_${project.ref}`, `plinth_shadow_used_${project.ref}`];
  await asAdmin('postgres', async (admin) => {
    for (const name of [lost, used]) await admin.query(`create database ${name}`);
    await admin.query('select pg_advisory_lock(hashtextextended($1, 0))', [used]);
    await dropLostShadows(servers, server?.id ?? '');
    t.false(await isThere(lost));
    t.true(await isThere(used));
  });
  // The lock ends with its connection.
  await until(async () => {
    await dropLostShadows(servers, server?.id ?? '');
    return !(await isThere(used));
  });
  t.pass();
});

test('a viewer and a stranger make no shadow', async (t) => {
  const { client } = platform();
  const project = await client.createProject(user);
  const [viewer, stranger] = [await addMember(platform(), project.orgId, 'viewer'), await client.signUp()];
  t.is((await shadow(project, [], viewer.token)).status, 403);
  t.is((await shadow(project, [], stranger.token)).status, 404);
});
