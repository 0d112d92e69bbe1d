import test from 'ava';
import { tenantRoles } from '#lib/tenant-db.ts';
import { markProjectDeleted } from '#domain/projects/store.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test);

let inside: Platform;
test.before('a second process of the platform', async () => {
  inside = await openPlatform(platform().config, memoryLog().log);
});
test.after.always(() => inside.close());

const serverHas = ({ ref, dbName }: { ref: string; dbName: string }) =>
  asAdmin('postgres', async (admin) => {
    const databases = await admin.query<{ datname: string }>(
      'select datname from pg_database where datname = $1 or datname like $2',
      [dbName, `%${ref}%`],
    );
    const roles = await admin.query<{ rolname: string }>('select rolname from pg_roles where rolname like $1', [
      `${ref}%`,
    ]);
    return [...databases.rows.map((row) => row.datname), ...roles.rows.map((row) => row.rolname)];
  });

/** As when the process dies between the mark and the rest of a deletion. */
const onlyMark = (id: string) => platform().db.transaction((tx) => markProjectDeleted(tx, id), systemActor);

test.serial('a deletion ends the project’s sessions and lets nobody in again', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const login = await tenantLogin(platform(), project.id, 'owner');
  await asTenant(login, async (session) => {
    const cut = sqlStateOf(session.query('select pg_sleep(60)'));
    await client.call('DELETE', `/projects/${project.id}`, { token: user.token });
    t.is(await cut, '57P01');
  }).catch(() => undefined);
  t.not(await sqlStateOf(asTenant(login, (session) => session.query('select 1'))), null);
  const renamed = { ...login, database: `plinth_deleted_${project.ref}` };
  t.not(await sqlStateOf(asTenant(renamed, (session) => session.query('select 1'))), null);
});

test.serial('a deletion that broke off is finished by a sweep', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  await onlyMark(project.id);
  await inside.projects.retireLeftOvers();
  const left = await serverHas(project);
  t.true(left.includes(`plinth_deleted_${project.ref}`));
  t.false(left.includes(project.dbName));
});

test.serial('a late sweep of a deleted project leaves alone the project that has its name by now', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const old = await client.createProject(user, { slug: 'reborn' });
  await onlyMark(old.id);
  const young = await client.createProject(user, { slug: 'reborn' });
  t.is(young.dbName, old.dbName);
  await inside.projects.tenantDb.use(young.id, 'owner', (session) => session.query('create table kept (x int)'));
  const [row] = await db.query<{ retired_at: Date | null }>('select retired_at from projects where id = $1', [old.id]);
  t.is(row?.retired_at, null);
  await inside.projects.retireLeftOvers();
  await inside.projects.retire(old.id);
  await inside.projects.purge(0);
  await inside.projects.tenantDb.use(young.id, 'owner', (session) => session.query('select * from kept'));
  t.true((await serverHas(young)).includes(young.dbName));
});

test.serial('deletions and creations of one slug that meet never mix up their databases', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  let project = await client.createProject(user, { slug: 'meet' });
  for (let round = 0; round < 5; round += 1) {
    await onlyMark(project.id);
    const [made] = await Promise.all([
      client.createProject(user, { slug: 'meet' }),
      inside.projects.retire(project.id),
      inside.projects.retireLeftOvers(),
    ]);
    project = made;
    const who = await inside.projects.tenantDb.use(made.id, 'owner', async (session) =>
      session.query('select current_user as name'),
    );
    t.is(who.rows[0].name, `${made.ref}_owner`);
  }
});

test.serial('a database is dropped with its roles, and the row with them, when its days are over', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  await client.deploy(user, project, 'exports.handler = () => 1');
  await client.call('DELETE', `/projects/${project.id}`, { token: user.token });
  await inside.projects.purge(7);
  t.is((await serverHas(project)).length, 1 + tenantRoles.length);
  await db
    .query(`update projects set deleted_at = now() - interval '7 days' where id = $1`, [project.id])
    .catch(() => undefined);
  t.true((await inside.projects.purge(0)) > 0);
  t.deepEqual(await serverHas(project), []);
  for (const [table, column] of [
    ['projects', 'id'],
    ['api_keys', 'project_id'],
    ['functions', 'project_id'],
    ['project_roles', 'project_id'],
    ['jobs', 'project_id'],
  ])
    t.is((await db.query(`select from ${table} where ${column} = $1`, [project.id])).length, 0, table);
});

test.serial('a database that cannot be dropped does not hold up the others', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const [stuck, free] = [await client.createProject(user), await client.createProject(user)];
  for (const { id } of [stuck, free]) await client.call('DELETE', `/projects/${id}`, { token: user.token });
  const holder = `holder_${stuck.ref}`;
  // A role that owns something elsewhere cannot be dropped.
  await asAdmin('postgres', async (admin) => {
    await admin.query(`create database "${holder}" owner "${stuck.ref}_reader"`);
  });
  t.is(await inside.projects.purge(0), 1);
  t.deepEqual(await serverHas(free), []);
  await asAdmin('postgres', (admin) => admin.query(`drop database "${holder}"`));
  t.is(await inside.projects.purge(0), 1);
  t.deepEqual(await serverHas(stuck), []);
});

test.serial('a purge is in the audit log as the platform’s own act', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  await client.call('DELETE', `/projects/${project.id}`, { token: user.token });
  await inside.projects.purge(0);
  const entries = await db.query<{ action: string; type: string }>(
    `select action, actor ->> 'type' as type from audit_entries where target_id = $1 order by created_at`,
    [project.id],
  );
  t.deepEqual(
    entries.map(({ action, type }) => [action, type]),
    [
      ['project.create', 'user'],
      ['project.delete', 'user'],
      ['project.purge', 'system'],
    ],
  );
});
