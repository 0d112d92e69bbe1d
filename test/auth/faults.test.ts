import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, newProject, platform, refresh, signIn, signedUp } = useAuth(test, {});

const setDatabase = (dbName: string, allowed: boolean) =>
  asAdmin('postgres', async (admin) => {
    await admin.query(`alter database "${dbName}" with allow_connections ${String(allowed)}`);
    if (!allowed) {
      await admin.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1`, [dbName]);
    }
  });

test('while the database of a project is away its users are told so, and those of others sign in', async (t) => {
  const [away, fine] = [await newProject(), await newProject()];
  const session = await signedUp(away);
  const other = await signedUp(fine);
  await setDatabase(away.dbName, false);
  const calls = () =>
    Promise.all([
      ask('POST', '/signup', { body: { email: newEmail(), password } }, away),
      signIn(session.user.email, password, away),
      refresh(session.refresh_token, away),
      ask('GET', '/user', { token: session.access_token }, away),
    ]);
  for (const { status, body } of await calls()) {
    t.is(status, 503);
    t.is(body.error_code, 'unexpected_failure');
  }
  t.is((await signIn(other.user.email, password, fine)).status, 200);
  t.is((await refresh(other.refresh_token, fine)).status, 200);
  await setDatabase(away.dbName, true);
  await until(async () => (await signIn(session.user.email, password, away)).status === 200);
  t.is((await refresh(session.refresh_token, away)).status, 200);
});

test('a mail that is asked for while the database is away is sent once it is back', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  await setDatabase(of.dbName, false);
  t.is((await ask('POST', '/recover', { body: { email: user.email } }, of)).status, 200);
  const { db } = platform();
  const waiting = () =>
    db.query<{ attempts: number }>('select attempts from end_user_mails where project_id = $1', [of.id]);
  await until(async () => (await waiting())[0]?.attempts === 1);
  await setDatabase(of.dbName, true);
  await db.query('update end_user_mails set next_at = now() where project_id = $1', [of.id]);
  // Whatever wakes the sender next: here another request.
  await ask('POST', '/recover', { body: { email: newEmail() } }, of);
  await until(async () => (await waiting()).length === 0);
  const mails = await db.query('select from emails where project_id = $1 and recipient = $2', [of.id, user.email]);
  t.is(mails.length, 1);
});

test('a project whose own trigger holds its mails up does not hold up those of others', async (t) => {
  const [slow, fine] = [await newProject(), await newProject()];
  const { user } = await signedUp(fine);
  const database = useDatabase(platform(), slow);
  await database.query(
    'owner',
    `create function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(4); return new; end $$`,
    'create trigger wait before insert on auth.users for each row execute function wait()',
  );
  for (let n = 0; n < 40; n += 1) {
    const body = { email: newEmail(), create_user: true };
    t.is((await ask('POST', '/otp', { body }, slow)).status, 200);
  }
  t.is((await ask('POST', '/recover', { body: { email: user.email } }, fine)).status, 200);
  const { db } = platform();
  await until(async () => (await db.query('select from emails where recipient = $1', [user.email])).length === 1);
  const [left] = await db.query<{ n: number }>('select count(*)::int as n from end_user_mails where project_id = $1', [
    slow.id,
  ]);
  t.true((left?.n ?? 0) > 20, `${left?.n} wait behind the trigger`);
  await db.query('delete from end_user_mails where project_id = $1', [slow.id]);
});

test('a project that is deleted signs nobody in', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const of = await client.createProject(user);
  const session = await signedUp(of);
  t.is((await client.call('DELETE', `/projects/${of.id}`, { token: user.token })).status, 204);
  t.is((await signIn(session.user.email, password, of)).status, 401);
  t.is((await refresh(session.refresh_token, of)).status, 401);
  t.deepEqual((await client.call('GET', `/p/${of.ref}/auth/v1/.well-known/jwks.json`)).body, { keys: [] });
});

test('a schema auth of the project’s own stays, and calls say what to do', async (t) => {
  const of = await newProject();
  // As in a project that had such a schema before the platform had one.
  await asAdmin(of.dbName, (admin) =>
    admin.query('alter schema auth rename to auth_of_the_platform; create schema auth'),
  );
  for (const answer of [
    await ask('POST', '/signup', { body: { email: newEmail(), password } }, of),
    await signIn(newEmail(), password, of),
  ]) {
    t.is(answer.status, 409);
    t.is(answer.body.error_code, 'conflict');
    t.regex(answer.body.hint, /new project/);
  }
});
