import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { makeOld, upgradeAll } from '../database/old-database.ts';
import { newEmail, password } from './auth-scene.ts';

// On a platform of its own, whose worker has stopped when databases are made old: it would upgrade them meanwhile.
const platform = usePlatform(test, { worker: false });
let made: { developer: TestUser; projects: TestProject[] };

test.serial.before('two projects', async () => {
  const stopWorker = await platform().startWorker();
  const { client } = platform();
  const developer = await client.signUp();
  made = { developer, projects: [await client.createProject(developer), await client.createProject(developer)] };
  await stopWorker();
});

const signUp = async ({ ref, publishableKey: key }: TestProject) =>
  platform().client.call('POST', `/p/${ref}/auth/v1/signup`, { key, body: { email: newEmail(), password } });

const projectAt = (place: number): TestProject => {
  const found = made.projects[place];
  if (found === undefined) throw new Error('there is no such project');
  return found;
};

/** The last version of projects' databases that had no users. */
const lastWithoutUsers = 21;

/** The answer of the data API to a token that the project made, for a user that it keeps elsewhere. */
const statusByToken = async (of: TestProject): Promise<number> => {
  const { client } = platform();
  const token = await client.call('POST', `/projects/${of.id}/users/tokens`, {
    token: made.developer.token,
    body: { sub: crypto.randomUUID() },
  });
  return (await client.call('GET', '/v1/rest/', { key: of.publishableKey, token: token.body.access_token })).status;
};

test.serial('users of a project that was made before there were any sign up once it is upgraded', async (t) => {
  const of = projectAt(0);
  const database = useDatabase(platform(), of);
  await makeOld(database, lastWithoutUsers);
  await platform().db.query(`delete from project_roles where project_id = $1 and kind in ('auth', 'users')`, [of.id]);
  await asAdmin('postgres', (admin) => admin.query(`drop role "${of.ref}_auth", "${of.ref}_users"`));
  t.is(await statusByToken(of), 200, 'tokens that the project made work before the upgrade, too');
  await database.query('owner', 'create table kept (x int)', 'insert into kept values (1)');
  const { logged } = await upgradeAll(platform());
  const { status, body } = await signUp(of);
  t.is(status, 200, logged);
  t.deepEqual(await database.query('owner', 'select email from auth.users'), [{ email: body.user.email }]);
  t.deepEqual(await database.query('owner', 'select x from kept'), [{ x: 1 }]);
});

test.serial('a project with a schema auth of its own is upgraded, and keeps it', async (t) => {
  const of = projectAt(1);
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
  t.is((await signUp(of)).status, 409);
  t.is(await statusByToken(of), 200);
});
