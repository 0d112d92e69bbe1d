import test from 'ava';
import { Client, type ClientConfig } from 'pg';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { type ProjectDatabase, denied, makeDatabase, useDatabase } from './guard-scene.ts';
import { openScene } from './scene.ts';

const platform = usePlatform(test);

let attacker: ProjectDatabase;
let neighbour: ProjectDatabase;
let inside: Platform;

test.before('two projects', async () => {
  [attacker, neighbour] = [await makeDatabase(platform()), await makeDatabase(platform())];
  await attacker.query('owner', 'create table mine (x int)', 'create publication all_of_it for table mine');
  inside = await openPlatform(platform().config, memoryLog().log);
});

test.after.always(() => inside?.close());

for (const role of tenantRoles) {
  test(`${role} cannot replicate, over whichever kind of connection`, async (t) => {
    for (const replication of ['true', 'database']) {
      const login = await tenantLogin(platform(), attacker.id, role);
      const client = new Client({ ...login, replication } as ClientConfig);
      client.on('error', () => undefined);
      t.is(await sqlStateOf(client.connect()), denied, replication);
      await client.end().catch(() => undefined);
    }
    for (const sql of ['start_replication physical 0/0', 'identify_system', 'base_backup'])
      t.is(await attacker.stateOf(role, sql), '42601', sql);
  });

  test(`${role} makes, reads and drops no replication slot`, async (t) => {
    for (const sql of [
      `select pg_create_physical_replication_slot('s')`,
      `select pg_create_physical_replication_slot('s', true, true)`,
      `select pg_create_logical_replication_slot('s', 'pgoutput')`,
      `select pg_create_logical_replication_slot('s', 'test_decoding', true)`,
      `select pg_copy_physical_replication_slot('s', 'r')`,
      `select pg_copy_logical_replication_slot('s', 'r')`,
      `select pg_drop_replication_slot('s')`,
      `select pg_replication_slot_advance('s', '0/0')`,
      `select * from pg_logical_slot_get_changes('s', null, null)`,
      `select * from pg_logical_slot_peek_binary_changes('s', null, null)`,
      'select * from pg_replication_slots',
      'select * from pg_get_replication_slots()',
      `select pg_replication_origin_create('o')`,
    ])
      t.is(await attacker.stateOf(role, sql), denied, sql);
  });

  test(`${role} changes nothing about itself or the platform’s roles`, async (t) => {
    const own = `"${attacker.ref}_${role}"`;
    const platformRole = `"${new URL(platform().config.DATABASE_URL).username}"`;
    for (const sql of [
      ...['replication', 'createdb', 'createrole', 'bypassrls', 'superuser', 'nologin', 'noinherit'].map(
        (attribute) => `alter role ${own} ${attribute}`,
      ),
      `alter role ${own} connection limit 10000`,
      `alter role ${own} valid until 'infinity'`,
      `alter role ${own} set temp_file_limit = -1`,
      `alter role ${own} set log_statement = 'all'`,
      `alter role ${own} set session_replication_role = replica`,
      `alter role ${own} set session_preload_libraries = 'auto_explain'`,
      `alter role ${platformRole} password 'x'`,
      `alter role all set statement_timeout = 1`,
      `alter role anon set statement_timeout = 1`,
      `comment on role ${own} is 'x'`,
      `drop role ${own}`,
      `grant ${own} to "${neighbour.ref}_owner"`,
      `grant anon to ${own}`,
      `grant pg_signal_backend to ${own}`,
      `grant pg_monitor to ${own}`,
      `set role pg_read_all_data`,
      `set role ${platformRole}`,
      `set session authorization ${platformRole}`,
      `set session authorization "${neighbour.ref}_owner"`,
      `reassign owned by ${own} to "${neighbour.ref}_owner"`,
      `alter database "${attacker.name}" connection limit -1`,
      `alter database "${attacker.name}" set statement_timeout = 0`,
      `alter database "${neighbour.name}" set statement_timeout = 1`,
      `comment on database "${attacker.name}" is 'x'`,
      `create database x template "${neighbour.name}"`,
    ])
      t.is(await attacker.stateOf(role, sql), denied, sql);
  });
}

test('the ways back to a role’s own session lead nowhere else', async (t) => {
  const own = `"${attacker.ref}_owner"`;
  for (const sql of ['set role none', 'reset role', 'reset session authorization', `set session authorization ${own}`])
    t.deepEqual(await attacker.query('owner', sql, 'select session_user = current_user as same'), [{ same: true }]);
});

test('a role that gave itself another password is given its own again, and its project works on', async (t) => {
  const { project, run, query } = await openScene(platform());
  const { call } = platform().client;
  for (const role of tenantRoles)
    t.is(
      await useDatabase(platform(), project).stateOf(role, `alter role "${project.ref}_${role}" password 'x'`),
      null,
    );
  t.is((await query('create table served (x int)')).status, 200);
  for (const key of [project.key, project.publishableKey])
    t.true([200, 403].includes((await call('GET', '/v1/rest/served', { key })).status));
  t.deepEqual((await run('select 1 as one')).rows, [{ one: 1 }]);
});

// The server drops no role that a right is noted against.
test('rights and policies for the roles of a neighbour are refused, so that it can be deleted', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const leaving = await client.createProject(user);
  const attempts = (['owner', 'api', 'service', 'reader'] as const).flatMap((kind) => {
    const role = `"${leaving.ref}_${kind}"`;
    return [
      `grant select on mine to ${role}`,
      `grant select (x) on mine to anon, ${role}`,
      `grant all on all tables in schema public to ${role}`,
      `alter default privileges grant select on tables to ${role}`,
      `alter default privileges in schema public grant execute on functions to ${role}`,
      `create policy p on mine to ${role} using (true)`,
      `create policy p on mine using (true); alter policy p on mine to ${role}`,
      `do $$ begin execute 'grant select on mine to ${role}'; exception when others then raise; end $$`,
      `create schema s; grant usage on schema s to ${role}`,
      `create type mood as enum (); grant usage on type mood to ${role}`,
      `create sequence s; grant usage on sequence s to ${role}`,
      `create function f() returns int language sql return 1; grant execute on function f() to ${role}`,
      `select lo_create(77); grant select on large object 77 to ${role}`,
      `create table given (x int); alter table given owner to ${role}`,
      `create schema authorization ${role}`,
    ];
  });
  for (const sql of attempts) t.is(await attacker.stateOf('owner', `begin; ${sql}; commit`), denied, sql);
  t.is((await client.call('DELETE', `/projects/${leaving.id}`, { token: user.token })).status, 204);
  await inside.projects.retireLeftOvers();
  await inside.projects.purge(0);
  const left = await asAdmin(
    'postgres',
    async (admin) =>
      (await admin.query('select rolname from pg_roles where starts_with(rolname, $1)', [leaving.ref])).rows,
  );
  t.deepEqual(left, []);
  t.deepEqual(await db.query('select from project_roles where project_id = $1', [leaving.id]), []);
});

test('rights and policies for end users and for the project’s own roles are given as ever', async (t) => {
  const own = (kind: string): string => `"${attacker.ref}_${kind}"`;
  t.is(
    await attacker.stateOf(
      'owner',
      'begin',
      'create table shared (x int)',
      'alter table shared enable row level security',
      'create policy everybody on shared to anon, authenticated using (true)',
      `create policy own on shared to ${own('service')} using (true)`,
      `alter policy own on shared to ${own('reader')}`,
      `grant select on shared to anon, ${own('reader')}, ${own('api')}`,
      'grant select on shared to public',
      `alter default privileges grant select on tables to ${own('reader')}`,
      'rollback',
    ),
    null,
  );
});

test('rights that whoever runs the server gave a role of its own are in nobody’s way', async (t) => {
  const database = await makeDatabase(platform());
  const role = `"monitor_${database.ref}"`;
  await database.query('owner', 'create table seen (x int)');
  await asAdmin(database.name, async (admin) => {
    await admin.query(`create role ${role}; grant select on seen to ${role}`);
    t.is(await database.stateOf('owner', 'grant select on seen to public'), null);
    await admin.query(`revoke all on seen from ${role}; drop role ${role}`);
  });
});
