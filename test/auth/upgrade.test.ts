import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { makeOld, upgradeAll } from '../database/old-database.ts';
import { useAuth } from './auth-scene.ts';

// Upgrades whatever is behind: on a platform of its own.
const { newProject, platform, refresh, signedUp } = useAuth(test, {});

/** The last version of projects' databases that had no users. */
const lastWithoutUsers = 21;

test('users of a project that was made before there were any sign up once it is upgraded', async (t) => {
  const of = await newProject();
  const database = useDatabase(platform(), of);
  await makeOld(database, lastWithoutUsers);
  await platform().db.query(`delete from project_roles where project_id = $1 and kind in ('auth', 'users')`, [of.id]);
  await asAdmin('postgres', (admin) => admin.query(`drop role "${of.ref}_auth", "${of.ref}_users"`));
  await database.query('owner', 'create table kept (x int)', 'insert into kept values (1)');
  const { logged } = await upgradeAll(platform());
  const session = await signedUp(of);
  t.is((await refresh(session.refresh_token, of)).status, 200, logged);
  t.deepEqual(await database.query('owner', 'select email from auth.users'), [{ email: session.user.email }]);
  t.deepEqual(await database.query('owner', 'select x from kept'), [{ x: 1 }]);
});

test('a project with a schema auth of its own is upgraded, and keeps it', async (t) => {
  const of = await newProject();
  const database = useDatabase(platform(), of);
  await makeOld(database);
  await database.query(
    'owner',
    'create table public.marker (x int)',
    'create schema auth',
    'create table auth.users (id int primary key, name text)',
    `insert into auth.users values (1, 'Ada')`,
  );
  await upgradeAll(platform());
  t.deepEqual(await database.query('owner', 'select * from auth.users'), [{ id: 1, name: 'Ada' }]);
  const refused = await t.throwsAsync(signedUp(of));
  t.regex(refused?.message ?? '', /409/);
});
