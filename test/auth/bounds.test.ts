import test from 'ava';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import { sweepEndUsers } from '#domain/end-users/sweep.ts';
import { createTenantDb } from '#lib/tenant-db.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';
import { tenantLogin } from '#test/support/tenant.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, refresh, signIn, signedUp } = useAuth(test, {});

test('a user has a hundred sign-ins at most: a new one ends the oldest', async (t) => {
  const of = await newProject();
  const first = await signedUp(of);
  const id = first.user.id;
  const database = useDatabase(platform(), of);
  await database.query(
    'auth',
    `insert into auth.sessions (id, user_id, amr, created_at)
     select gen_random_uuid(), '${id}', '[]', now() + make_interval(secs => n) from generate_series(1, 99) n`,
  );
  await signIn(first.user.email, password, of);
  t.deepEqual(await database.query('auth', `select count(*)::int as n from auth.sessions where user_id = '${id}'`), [
    { n: 100 },
  ]);
  t.is((await refresh(first.refresh_token, of)).status, 400);
});

test('a page of users that is larger than 4 MB is refused, and a smaller one comes', async (t) => {
  const of = await newProject();
  await asAdmin(of.dbName, (admin) =>
    admin.query(
      `insert into auth.users (id, email, raw_user_meta_data, raw_app_meta_data)
       select gen_random_uuid(), 'user-' || n || '@example.com', about, about from generate_series(1, 1000) n,
         (select jsonb_build_object('about', repeat('x', 4000)) as about)`,
    ),
  );
  const page = (size: number) => ask('GET', `/admin/users?page=1&per_page=${size}`, { key: of.key }, of);
  const refused = await page(1000);
  t.is(refused.status, 413, refused.text);
  t.regex(refused.text, /more than 4194304 bytes.*per_page/);
  const taken = await page(400);
  t.deepEqual([taken.status, taken.body.users?.length], [200, 400]);
});

test('a project has as many users as its plan allows', async (t) => {
  const of = await newProject();
  await signedUp(of);
  await asAdmin(of.dbName, (admin) =>
    admin.query(`update pg_class set reltuples = 10000000 where oid = 'auth.users'::regclass`),
  );
  const refused = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
  t.is(refused.status, 403);
  t.regex(refused.body.msg, /allows 10000000 users/);
  const made = await platform().client.call('POST', `/projects/${of.id}/users`, {
    token: developer().token,
    body: { email: newEmail() },
  });
  t.deepEqual([made.status, made.body.code], [403, 'plan_limit_exceeded']);
});

test('a full database takes no new user, and those that there are sign in', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  await asAdmin(of.dbName, (admin) => admin.query('update plinth.limits set size_exceeded = true'));
  const refused = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
  t.is(refused.status, 403);
  t.regex(refused.body.msg, /full/);
  t.is((await signIn(user.email, password, of)).status, 200);
});

test('a trigger of the owner fills auth.users no further than the database may grow', async (t) => {
  const of = await newProject();
  const database = useDatabase(platform(), of);
  await database.query(
    'owner',
    `create function grow() returns trigger language plpgsql as $$
     begin
       if pg_trigger_depth() = 1 then
         insert into auth.users (id, raw_user_meta_data)
         select gen_random_uuid(), json_build_object('x', repeat(md5(random()::text), 1000))::jsonb;
       end if;
       return null;
     end $$`,
    'create trigger grow after insert on auth.users for each row execute function grow()',
  );
  await signedUp(of);
  const before = await database.query('owner', 'select count(*)::int as n from auth.users');
  await asAdmin(of.dbName, (admin) => admin.query('update plinth.limits set size_exceeded = true'));
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password } }, of)).status, 403);
  t.deepEqual(await database.query('owner', 'select count(*)::int as n from auth.users'), before);
});

test('what has expired is swept, each project once a day, and what lasts stays', async (t) => {
  const of = await newProject();
  const lasting = await signedUp(of);
  const database = useDatabase(platform(), of);
  await database.query(
    'auth',
    `insert into auth.sessions (id, user_id, amr, rotated_at)
     select gen_random_uuid(), '${lasting.user.id}', '[]', now() - interval '31 days' from generate_series(1, 6000)`,
    `insert into auth.counts (key, number, began_at)
     select sha256(n::text::bytea), 1, now() - interval '2 hours' from generate_series(1, 10) n`,
    `insert into auth.one_time_tokens (user_id, kind, token_hash, code_hash, email, expires_at)
     values ('${lasting.user.id}', 'recovery', sha256('a'), sha256('b'), 'a@example.com', now() - interval '1 minute')`,
    `insert into auth.flow_codes (hash, user_id, method, code_challenge, expires_at)
     values (sha256('c'), '${lasting.user.id}', 'otp', 'x', now() - interval '2 days')`,
  );
  const { log } = memoryLog();
  const tenantDb = createTenantDb({ budget: 8, login: (id, role) => tenantLogin(platform(), id, role), log });
  t.teardown(tenantDb.close);
  const sweep = async () => {
    // Projects of other tests are due, too, some at a time.
    for (let n = 0; n < 5; n += 1) await sweepEndUsers({ db: platform().db, authDb: createAuthDb(tenantDb), log });
  };
  const counts = () =>
    database.query(
      'auth',
      `select (select count(*)::int from auth.sessions) as sessions, (select count(*)::int from auth.counts) as counts,
         (select count(*)::int from auth.one_time_tokens) as links, (select count(*)::int from auth.flow_codes) as codes`,
    );
  // The worker's own sweep may have come before.
  await platform().db.query('delete from end_user_sweeps where project_id = $1', [of.id]);
  await sweep();
  t.deepEqual(await counts(), [{ sessions: 1, counts: 0, links: 0, codes: 0 }]);
  t.is((await refresh(lasting.refresh_token, of)).status, 200);
  await database.query('auth', `insert into auth.counts values (sha256('x'), 1, now() - interval '2 hours')`);
  await sweep();
  t.like((await counts())[0], { counts: 1 });
});
