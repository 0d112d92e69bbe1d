import test from 'ava';
import { tenantRoles } from '#lib/tenant-db.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { denied, useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, refresh, signedUp } = useAuth(test);

const opened = async () => {
  const of = await newProject();
  return { of, database: useDatabase(platform(), of) };
};

test('the owner reads auth.users and refers to it, and a user’s rows go with the user', async (t) => {
  const { of, database } = await opened();
  const { user } = await signedUp(of);
  t.deepEqual(await database.query('owner', 'select email from auth.users'), [{ email: user.email }]);
  await database.query(
    'owner',
    'create table notes (id int primary key, of uuid references auth.users (id) on delete cascade)',
    `insert into notes values (1, '${user.id}')`,
  );
  await database.query('users', `delete from auth.users where id = '${user.id}'`);
  t.deepEqual(await database.query('owner', 'select * from notes'), []);
});

test('the owner writes nothing of the schema auth, and reads no secret', async (t) => {
  const { database, of } = await opened();
  const { user } = await signedUp(of);
  for (const sql of [
    `insert into auth.users (id) values (gen_random_uuid())`,
    `update auth.users set email = 'x@example.com'`,
    `delete from auth.users where id = '${user.id}'`,
    'truncate auth.users cascade',
    'select * from auth.users for update',
    'alter table auth.users add column x int',
    'alter table auth.users disable row level security',
    'drop table auth.users cascade',
    'create index on auth.users (email)',
    'create policy p on auth.users using (true)',
    `comment on table auth.users is 'x'`,
    'create table auth.mine (x int)',
    'create function auth.mine() returns int language sql as $$ select 1 $$',
    'select * from auth.accounts',
    'select * from auth.identities',
    'select * from auth.sessions',
    'select * from auth.counts',
    'select * from auth.openid',
    `select auth.end_sessions('${user.id}', null)`,
    `select auth.set_password('${user.id}', '\\x00', null)`,
    `select auth.emit('user.created', '{}')`,
    `select * from auth.refresh('${user.id}', 0, 1, 1, false, null)`,
    'set role plinth_auth',
    'set role plinth_users',
    'set role plinth_users_owner',
    `grant plinth_auth to current_user`,
  ])
    t.true([denied, '42809'].includes((await database.stateOf('owner', sql)) ?? ''), sql);
});

test('end users and the keys see nothing of the schema but its helpers', async (t) => {
  const { database } = await opened();
  for (const role of ['anon', 'authenticated'] as const) {
    t.is(await database.stateAs(role, 'select * from auth.users'), denied);
    t.is(await database.stateAs(role, 'select * from auth.sessions'), denied);
    t.is(await database.stateAs(role, 'select auth.uid(), auth.jwt(), auth.role(), auth.email()'), null);
  }
  for (const role of ['service', 'reader'] as const)
    t.is(await database.stateOf(role, 'select * from auth.users'), denied);
});

test('each of the platform’s two roles has its half: secrets, or writing users', async (t) => {
  const { database } = await opened();
  t.is(await database.stateOf('auth', 'update auth.users set email = null'), denied);
  for (const table of ['accounts', 'identities', 'sessions', 'counts'])
    t.is(await database.stateOf('users', `select * from auth.${table}`), denied);
  for (const role of ['auth', 'users'] as const) {
    t.is(await database.stateOf(role, 'create table public.x (y int)'), denied);
    t.is(await database.stateOf(role, 'create table auth.x (y int)'), denied);
    const others = tenantRoles.filter((other) => other !== role).map((other) => `"${database.ref}_${other}"`);
    for (const other of [...others, 'plinth_users_owner'])
      t.is(await database.stateOf(role, `set role ${other}`), denied);
  }
});

for (const timing of ['after insert on auth.users', 'after insert on auth.users deferrable initially deferred'])
  test(`a trigger ${timing} runs without a right to any secret`, async (t) => {
    const { database, of } = await opened();
    const constraint = timing.includes('deferrable') ? 'constraint' : '';
    // The answer shows the SQLSTATE alone: TT001 when everything was denied to it, another one otherwise.
    await database.query(
      'owner',
      `create function probe() returns trigger language plpgsql as $$
       declare denials int := 0;
       begin
         if current_user <> '${of.ref}_users' then raise exception 'another role' using errcode = 'TT002'; end if;
         begin perform 1 from auth.accounts; exception when insufficient_privilege then denials := denials + 1; end;
         begin perform 1 from auth.sessions; exception when insufficient_privilege then denials := denials + 1; end;
         begin set local role plinth_auth; exception when insufficient_privilege then denials := denials + 1; end;
         begin execute 'create table public.x (y int)';
         exception when insufficient_privilege then denials := denials + 1; end;
         raise exception 'done' using errcode = case denials when 4 then 'TT001' else 'TT003' end;
       end $$`,
      `create ${constraint} trigger probe ${timing} for each row execute function probe()`,
    );
    const { body } = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
    t.true(body.msg.includes('(TT001)'), body.msg);
  });

test('a trigger of the owner that fails keeps the user from being made, and says so', async (t) => {
  const { database, of } = await opened();
  await database.query(
    'owner',
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'a secret text'; end $$`,
    'create trigger refuse before insert on auth.users for each row execute function refuse()',
  );
  const { status, body, text } = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
  t.deepEqual([status, body.error_code], [500, 'unexpected_failure']);
  t.false(text.includes('a secret text'));
  t.true(body.msg.includes('P0001'));
  t.deepEqual(await database.query('owner', 'select * from auth.users'), []);
  await database.query('owner', `select auth.drop_trigger('refuse')`);
  await signedUp(of);
  t.is(await database.stateOf('owner', `select auth.drop_trigger('plinth_x')`), denied);
});

test('a reference by a type of the owner’s, whose cast would run as another role, is refused', async (t) => {
  const { database } = await opened();
  const state = await database.stateOf(
    'owner',
    `create type letters as enum ('a')`,
    `create function to_id(letters) returns uuid language plpgsql as $$
     begin perform 1 from auth.users; return gen_random_uuid(); end $$`,
    'create cast (letters as uuid) with function to_id(letters) as implicit',
    'create table bent (of letters references auth.users (id))',
  );
  t.is(state, '42804');
});

test('a lock that the owner holds on auth.users delays sign-ups of this project for 2 s, and refreshes not at all', async (t) => {
  const { database, of } = await opened();
  const session = await signedUp(of);
  await database.query('owner', 'create table held (of uuid)');
  await asTenant(await tenantLogin(platform(), of.id, 'owner'), async (client) => {
    await client.query('begin');
    await client.query('alter table held add foreign key (of) references auth.users (id)');
    const blocked = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
    t.is(blocked.status, 503);
    t.is((await refresh(session.refresh_token, of)).status, 200);
    await client.query('rollback');
  });
  await signedUp(of);
});

test('the dump of the schema holds references to users and triggers on them, and another project takes it', async (t) => {
  const { database, of } = await opened();
  await database.query(
    'owner',
    'create table profiles (id uuid primary key references auth.users (id) on delete cascade)',
    `create function handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
     begin insert into public.profiles values (new.id); return new; end $$`,
    'create trigger on_user after insert on auth.users for each row execute function handle_new_user()',
  );
  const dump = await platform().client.call('GET', `/projects/${of.id}/db/schema.sql`, { token: developer().token });
  t.is(dump.status, 200);
  const copy = await opened();
  await copy.database.query('owner', dump.text);
  const { user } = await signedUp(copy.of);
  t.deepEqual(await copy.database.query('owner', 'select id from profiles'), [{ id: user.id }]);
});
