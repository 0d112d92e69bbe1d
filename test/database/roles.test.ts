import test from 'ava';
import { type TenantRole, tenantRoles } from '#lib/tenant-db.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test);

const denied = '42501';

let mine: TestProject;
let neighbour: TestProject;

const login = (role: TenantRole) => tenantLogin(platform(), mine.id, role);

const query = async (role: TenantRole, ...statements: string[]) =>
  asTenant(await login(role), async (client) => {
    let rows: Record<string, unknown>[] = [];
    for (const sql of statements) rows = (await client.query(sql)).rows as typeof rows;
    return rows;
  });

const stateOf = (role: TenantRole, ...statements: string[]) => sqlStateOf(query(role, ...statements));

test.before('two projects, one with tables', async () => {
  const { client } = platform();
  const user = await client.signUp();
  [mine, neighbour] = [await client.createProject(user), await client.createProject(user)];
  await query(
    'owner',
    'create table notes (id serial primary key, body text)',
    `insert into notes (body) values ('first')`,
    `create function two() returns int language sql as 'select 2'`,
    'create schema extra; create table extra.t (x int)',
  );
});

for (const role of tenantRoles) {
  test(`${role} signs in to its own database and to no other`, async (t) => {
    t.deepEqual(await query(role, 'select current_database() as name'), [{ name: mine.dbName }]);
    const template = await asAdmin('postgres', async (admin) => {
      const { rows } = await admin.query(
        `select datname from pg_database where datname ~ '^plinth_template_[0-9a-f]{12}$'`,
      );
      return String(rows[0].datname);
    });
    const control = new URL(platform().config.DATABASE_URL).pathname.slice(1);
    for (const database of [control, 'postgres', 'template1', 'template0', template, neighbour.dbName]) {
      const state = await sqlStateOf(
        asTenant({ ...(await login(role)), database }, (client) => client.query('select 1')),
      );
      // 55000: the database takes no connections at all.
      t.true(state === denied || state === '55000', `${database}: ${state}`);
    }
  });

  test(`${role} may not manage roles, databases or the server`, async (t) => {
    const attempts = [
      'create role intruder',
      'create database intruder',
      `alter role "${neighbour.ref}_owner" password 'x'`,
      `alter role "${mine.ref}_${role}" createrole`,
      `alter role "${mine.ref}_${role}" bypassrls`,
      `alter role "${mine.ref}_${role}" superuser`,
      `grant pg_read_server_files to "${mine.ref}_${role}"`,
      `grant "${neighbour.ref}_owner" to "${mine.ref}_${role}"`,
      `drop role "${neighbour.ref}_reader"`,
      `alter database "${mine.dbName}" rename to stolen`,
      `alter database "${neighbour.dbName}" connection limit 0`,
      `drop database "${neighbour.dbName}"`,
      `alter system set max_connections = 1`,
      `select pg_read_file('/etc/passwd')`,
      `select pg_ls_dir('.')`,
      `select lo_import('/etc/passwd')`,
      `copy (select 1) to program 'id'`,
      `copy (select 1) to '/tmp/plinth-intruder'`,
      `select * from pg_authid`,
      `select pg_reload_conf()`,
      `create extension dblink`,
      `create language plperlu`,
      `select * from plinth.migrations`,
      `create table plinth.t (x int)`,
      `drop schema plinth cascade`,
      `set role "${new URL(platform().config.DATABASE_URL).username}"`,
      `set role "${neighbour.ref}_owner"`,
      `set role "${neighbour.ref}_service"`,
      `set session authorization "${neighbour.ref}_owner"`,
      ...tenantRoles.filter((other) => other !== role).map((other) => `set role "${mine.ref}_${other}"`),
    ];
    for (const sql of attempts) {
      const state = await stateOf(role, sql);
      // The other codes: there is no such role, extension, language, file or schema to begin with.
      t.true(state !== null && [denied, '42704', '0A000', '58P01', '3F000'].includes(state), `${sql}: ${state}`);
    }
  });

  test(`${role} sees nothing of its neighbours in any view or table`, async (t) => {
    const leaks = await asTenant(await login(role), async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `select oid::regclass::text as name from pg_class
         where relkind in ('r', 'v') and relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
         and has_table_privilege(oid, 'select')`,
      );
      const found: string[] = [];
      for (const { name } of rows) {
        const secrets = [neighbour.dbName, `${neighbour.ref}_`, 'plinth_template_', '_draft'];
        const where = secrets.map((secret) => `x::text like '%${secret}%'`).join(' or ');
        const state = await client.query(`select 1 from ${name} x where ${where} limit 1`).then(
          (answer) => answer.rows.length > 0,
          () => false,
        );
        if (state) found.push(name);
      }
      return found;
    });
    t.deepEqual(leaks, []);
  });

  test(`${role} learns no database’s name and no session from functions`, async (t) => {
    const [oids] = await asAdmin('postgres', async (admin) => {
      const { rows } = await admin.query('select oid::int as db from pg_database where datname = $1', [
        neighbour.dbName,
      ]);
      return rows;
    });
    const attempts = [
      `select pg_describe_object('pg_database'::regclass, ${oids.db}, 0)`,
      `select * from pg_identify_object('pg_database'::regclass, ${oids.db}, 0)`,
      `select * from pg_identify_object_as_address('pg_database'::regclass, ${oids.db}, 0)`,
      'select pg_stat_get_backend_idset()',
      'select pg_stat_get_activity(null)',
      'select pg_lock_status()',
      'select pg_tablespace_databases(1663)',
      `select shobj_description(${oids.db}, 'pg_database')`,
      `select pg_database_size(${oids.db}::oid)`,
    ];
    for (const sql of attempts) t.is(await stateOf(role, sql), denied, sql);
  });
}

test('api may become anon and authenticated, and has nothing of its own', async (t) => {
  for (const role of ['anon', 'authenticated'])
    t.deepEqual(await query('api', `set role ${role}`, 'select current_user as name'), [{ name: role }]);
  for (const sql of ['select * from public.notes', 'select public.two()', 'create table public.t (x int)'])
    t.is(await stateOf('api', sql), denied, sql);
});

test('functions that end users and keys call may use temporary tables, which the session does not keep', async (t) => {
  const temporary = ['create temp table t as select 1 as x', 'select x from t'];
  for (const role of ['anon', 'authenticated'])
    t.deepEqual(await query('api', `set role ${role}`, ...temporary), [{ x: 1 }], role);
  t.deepEqual(await query('service', ...temporary), [{ x: 1 }]);
  t.is(await stateOf('service', 'select x from t'), '42P01');
});

test('the other roles cannot become anon or authenticated', async (t) => {
  for (const role of ['owner', 'service', 'reader'] as const)
    for (const other of ['anon', 'authenticated']) t.is(await stateOf(role, `set role ${other}`), denied);
});

test('anon and authenticated see and do nothing by default', async (t) => {
  for (const role of ['anon', 'authenticated']) {
    for (const sql of [
      'select * from notes',
      `insert into notes (body) values ('x')`,
      'select * from extra.t',
      'select two()',
      `select nextval('notes_id_seq')`,
      'create table t (x int)',
      'select lo_create(0)',
      `select pg_logical_emit_message(false, 'a', 'b')`,
    ])
      t.is(await stateOf('api', `set role ${role}`, sql), denied, `${role}: ${sql}`);
  }
});

test('owner makes tables, schemas, temporary tables and functions', async (t) => {
  const rows = await query(
    'owner',
    'create temp table t as select 1 as x',
    'create schema more',
    'create table more.t (x int)',
    'drop schema more cascade',
    'select x from t',
  );
  t.deepEqual(rows, [{ x: 1 }]);
});

test('reader reads, also tables made later, and writes nothing', async (t) => {
  await query('owner', 'create table if not exists later (x int)');
  t.deepEqual(await query('reader', 'select body from notes'), [{ body: 'first' }]);
  t.deepEqual(await query('reader', 'select x from later'), []);
  for (const sql of [
    `insert into notes (body) values ('x')`,
    `update notes set body = 'x'`,
    'delete from notes',
    'truncate notes',
    'drop table notes',
    'create table t (x int)',
    'create temp table t (x int)',
    `select nextval('notes_id_seq')`,
    'select lo_create(0)',
    `select lo_from_bytea(0, 'x')`,
    `select pg_logical_emit_message(false, 'a', 'b')`,
    `do $$ begin delete from notes; end $$`,
    'select * from notes for update',
    'create schema t',
    'select two()',
  ])
    t.is(await stateOf('reader', sql), denied, sql);
});

test('service reads and writes rows, past row-level security, but changes no schema', async (t) => {
  await query('owner', 'create table guarded (x int)', 'alter table guarded enable row level security');
  await query('service', 'insert into guarded values (1)');
  t.deepEqual(await query('service', 'select x from guarded'), [{ x: 1 }]);
  t.deepEqual(await query('service', 'select two() as n'), [{ n: 2 }]);
  t.deepEqual(await query('service', `insert into notes (body) values ('s') returning body`), [{ body: 's' }]);
  await query('owner', `delete from notes where body = 's'`);
  for (const sql of ['create table t (x int)', 'drop table notes', 'create schema s'])
    t.is(await stateOf('service', sql), denied, sql);
});

test('no password of a role is in the control database in clear', async (t) => {
  const passwords = await Promise.all(tenantRoles.map(async (role) => (await login(role)).password));
  const rows = await platform().db.query<{ row: string; bytes: string }>(
    `select project_roles::text as row, encode(password_sealed, 'escape') as bytes from project_roles`,
  );
  for (const password of passwords) {
    t.is(password.length, 32);
    t.false(rows.some(({ row, bytes }) => row.includes(password) || bytes.includes(password)));
    t.false(platform().logged().includes(password));
  }
});
