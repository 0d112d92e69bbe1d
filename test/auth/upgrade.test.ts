import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { makeOld, upgradeAll } from '../database/old-database.ts';
import { useAuth } from './auth-scene.ts';

// Upgrades whatever is behind: on a platform of its own.
const { developer, newProject, platform, refresh, signedUp } = useAuth(test, {});

/** The last version of projects' databases that had no users. */
const lastWithoutUsers = 21;

/** The answer of the data API to a token that the project made, for a user that it keeps elsewhere. */
const statusByToken = async (of: TestProject): Promise<number> => {
  const { client } = platform();
  const made = await client.call('POST', `/projects/${of.id}/users/tokens`, {
    token: developer().token,
    body: { sub: crypto.randomUUID() },
  });
  return (await client.call('GET', '/v1/rest/', { key: of.publishableKey, token: made.body.access_token })).status;
};

test('users of a project that was made before there were any sign up once it is upgraded', async (t) => {
  const of = await newProject();
  const database = useDatabase(platform(), of);
  await makeOld(database, lastWithoutUsers);
  await platform().db.query(`delete from project_roles where project_id = $1 and kind in ('auth', 'users')`, [of.id]);
  await asAdmin('postgres', (admin) => admin.query(`drop role "${of.ref}_auth", "${of.ref}_users"`));
  t.is(await statusByToken(of), 200, 'tokens that the project made work before the upgrade, too');
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
  t.is(await statusByToken(of), 200);
});
