import test from 'ava';
import { deletedProjectJobs } from '#domain/jobs/abandon.ts';
import { createProjects } from '#domain/projects/projects.ts';
import { createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { type ProjectDatabase, denied, makeDatabase } from './guard-scene.ts';
import { type Neighbour, openNeighbour } from './neighbour.ts';

const platform = usePlatform(test);

const tooMuch = '53400';

let attacker: ProjectDatabase;
let neighbour: Neighbour;

test.before('two projects', async () => {
  [attacker, neighbour] = [await makeDatabase(platform()), await openNeighbour(platform())];
});

for (const [what, call] of [
  ['session locks', 'pg_advisory_lock(n)'],
  ['shared locks', 'pg_advisory_lock_shared(n)'],
  ['tried locks', 'pg_try_advisory_lock(n, 1)'],
  ['locks of a transaction', 'pg_advisory_xact_lock(n::bigint)'],
  ['tried locks of a transaction', 'pg_try_advisory_xact_lock_shared(1, n)'],
] as const)
  test.serial(`a flood of advisory locks ends at 64 of a session: ${what}`, async (t) => {
    await neighbour.unharmed(t, async () => {
      const sessions = Array.from({ length: 8 }, (_, nth) =>
        attacker.stateOf('owner', `select ${call} from generate_series(${nth * 10_000 + 1}, ${nth * 10_000 + 9999}) n`),
      );
      for (const state of await Promise.all(sessions)) t.is(state, tooMuch);
    });
  });

test('advisory locks work as ever for who needs a few', async (t) => {
  const login = await tenantLogin(platform(), attacker.id, 'owner');
  await asTenant(login, async (first) =>
    asTenant(login, async (second) => {
      await first.query('select pg_advisory_lock(77), pg_advisory_lock(77, 1)');
      const tried = async () => (await second.query('select pg_try_advisory_lock(77) as got')).rows[0].got;
      t.false(await tried());
      await first.query('select pg_advisory_unlock(77)');
      t.true(await tried());
      await second.query('begin; select pg_advisory_xact_lock(78); commit');
      t.true((await first.query('select pg_try_advisory_xact_lock(78) as got')).rows[0].got);
    }),
  );
});

test('the functions behind them are out of reach', async (t) => {
  for (const sql of [
    'select plinth.pg_advisory_lock(1)',
    'set search_path = plinth, pg_catalog; select pg_advisory_lock(g) from generate_series(1, 100) g',
    `select plinth.pg_get_userbyid(10)`,
    'create function mine(bigint) returns void language internal as $$pg_advisory_lock_int8$$',
    'alter function pg_catalog.pg_advisory_lock(bigint) owner to current_user',
  ]) {
    const state = await attacker.stateOf('owner', sql);
    t.true([denied, tooMuch].includes(String(state)), `${sql}: ${state}`);
  }
});

test.serial('a session makes at most 100 temporary tables', async (t) => {
  const flood = `do $$ begin for i in 1..3000 loop execute 'create temp table flood_' || i || ' (x int)'; end loop; end $$`;
  await neighbour.unharmed(t, async () => t.is(await attacker.stateOf('owner', flood), tooMuch));
  const one = `do $$ begin for i in 1..90 loop execute 'create temp table some_' || i || ' (x int)'; end loop; end $$`;
  t.is(await attacker.stateOf('owner', one, 'discard temp', one), null);
});

test.serial('a transaction that changes the schema holds at most 2,000 locks', async (t) => {
  // Each column brings a sequence and an index, which are locked, too.
  const columns = Array.from({ length: 300 }, (_, n) => `c${n} serial unique`).join(', ');
  const tables = Array.from({ length: 5 }, (_, n) => `create table flood_${n} (${columns})`);
  await neighbour.unharmed(t, async () => t.is(await attacker.stateOf('owner', 'begin', ...tables), tooMuch));
});

const refused: Readonly<Record<string, readonly string[]>> = {
  'programs and files of the server': [
    `copy (select 1) to program 'id'`,
    `copy files from program 'id'`,
    `copy files from '/etc/passwd'`,
    `copy files to '/tmp/plinth-intruder'`,
    `select pg_read_file('/etc/passwd')`,
    `select pg_read_binary_file('PG_VERSION')`,
    `select pg_ls_dir('.')`,
    `select pg_stat_file('PG_VERSION')`,
    `select lo_import('/etc/passwd')`,
    `select lo_export(1, '/tmp/plinth-intruder')`,
    `load '/tmp/x.so'`,
    `create function f() returns int language c as '/tmp/x.so', 'f'`,
    `create tablespace t location '/tmp'`,
  ],
  'other servers': [
    'create extension dblink',
    'create extension postgres_fdw',
    'create foreign data wrapper w',
    'create server s foreign data wrapper postgres_fdw',
    `create subscription s connection 'host=127.0.0.1' publication p`,
  ],
  'replication and the server itself': [
    `select pg_create_physical_replication_slot('s')`,
    `select pg_create_logical_replication_slot('s', 'pgoutput')`,
    'create event trigger e on ddl_command_end execute function plinth.on_ddl()',
    'select pg_reload_conf()',
    'select pg_rotate_logfile()',
    'checkpoint',
    'alter system set max_connections = 1',
    `set log_statement = 'all'`,
    'set temp_file_limit = -1',
    'set session_replication_role = replica',
    'set allow_system_table_mods = on',
    'update pg_proc set proacl = null',
    'drop owned by current_user',
  ],
};

for (const [what, statements] of Object.entries(refused))
  test(`SQL reaches nothing outside: ${what}`, async (t) => {
    for (const sql of statements) {
      const state = await attacker.stateOf('owner', 'create temp table files (x text)', sql);
      // The others: the extension, wrapper or setting is not on this server to begin with; no checkpoint before 18.
      t.true([denied, '42704', '58P01', '0A000', '55000', '3F000'].includes(String(state)), `${sql}: ${state}`);
    }
  });

test('nothing names a role of a neighbour by its number', async (t) => {
  const [numbers] = await asAdmin(
    'postgres',
    async (admin) =>
      (await admin.query(`select oid::int, rolname from pg_roles where rolname = $1`, [`${neighbour.ref}_owner`])).rows,
  );
  const { oid } = numbers;
  const attempts = [
    `select ${oid}::oid::regrole::text as told`,
    `select format('%s %I %L', ${oid}::oid::regrole, ${oid}::oid::regrole, ${oid}::oid::regrole) as told`,
    `select array[${oid}::oid::regrole]::text as told`,
    `select row(${oid}::oid::regrole)::text as told`,
    `select to_jsonb(${oid}::oid::regrole)::text as told`,
    `select xmlelement(name x, ${oid}::oid::regrole)::text as told`,
    `select pg_get_userbyid(${oid}) as told`,
    `select acldefault('r', ${oid}::oid)::text as told`,
  ];
  for (const role of ['owner', 'service', 'reader', 'api'] as const)
    for (const sql of attempts) {
      const [row] = await attacker.query(role, sql);
      t.false(String(row?.['told']).includes(neighbour.ref), sql);
    }
  for (const sql of [
    `select regroleout(${oid}::oid::regrole)`,
    `select makeaclitem(${oid}, ${oid}, 'SELECT', false)`,
    `select pg_describe_object('pg_authid'::regclass, ${oid}, 0)`,
  ])
    t.true([denied, '42883'].includes(String(await attacker.stateOf('owner', sql))), sql);
  t.deepEqual(await attacker.query('owner', `select * from pg_roles where oid = ${oid}`), []);
});

test('the size of a neighbour’s database is refused without its name', async (t) => {
  const oid = await asAdmin('postgres', async (admin) =>
    Number((await admin.query('select oid from pg_database where datname = $1', [neighbour.dbName])).rows[0].oid),
  );
  const error = await t.throwsAsync(attacker.query('owner', `select pg_database_size(${oid}::oid)`));
  t.false(error?.message.includes(neighbour.dbName));
  t.is(await attacker.stateOf('owner', 'select pg_database_size(current_database())'), null);
});

test('a function that the planner takes for cheap is shown no row that a system view hides', async (t) => {
  const shown = await attacker.query(
    'owner',
    'create table heard (what text)',
    `create function tell(text) returns boolean language plpgsql cost 0.0000001 as $$
     begin if $1 like '%${neighbour.ref}%' or $1 = '${neighbour.dbName}' then insert into heard values ($1); end if; return true; end $$`,
    `do $$ declare asked record; begin
       for asked in
         select c.oid::regclass as view, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
         where c.relkind = 'v' and c.relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
           and has_table_privilege(c.oid, 'select')
           and pg_get_viewdef(c.oid) ~ 'pg_authid|pg_database|pg_roles|_roles|_privileges|_grants'
           and a.atttypid in ('name'::regtype, 'text'::regtype, 'information_schema.sql_identifier'::regtype)
       loop
         begin
           execute format('select count(*) from %s where tell(%I::text)', asked.view, asked.attname);
         exception when others then null;
         end;
       end loop;
     end $$`,
    'select what from heard',
  );
  t.deepEqual(shown, []);
});

test('what a role makes of its own settings changes no session of the platform’s', async (t) => {
  const database = await makeDatabase(platform());
  const own = `"${database.ref}_owner"`;
  const settings = [
    'search_path = evil',
    'statement_timeout = 1',
    'default_transaction_read_only = on',
    'standard_conforming_strings = off',
    `datestyle = 'German'`,
    `timezone = 'Asia/Tokyo'`,
    'row_security = off',
    `local_preload_libraries = 'missing'`,
    'idle_in_transaction_session_timeout = 1',
    `role = 'nobody'`,
  ];
  await database.query('owner', ...settings.map((setting) => `alter role ${own} set ${setting}`));
  const { db, config } = platform();
  const keyRing = openKeyRing(config.PLINTH_SECRET_KEYS);
  const sealer = await openPlatformSealer(db, keyRing);
  const { log } = memoryLog();
  const servers = createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log });
  const projects = createProjects({ db, servers, keyRing, jobs: deletedProjectJobs(db), tenantConnections: 2, log });
  const names = ['search_path', 'statement_timeout', 'default_transaction_read_only', 'timezone', 'datestyle'];
  const read = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join(', ')}`;
  const rows = await projects.tenantDb.use(database.id, 'owner', async (client) => [
    (await client.query(read)).rows[0],
    (await client.query(`discard all`)) && (await client.query(read)).rows[0],
  ]);
  for (const row of rows) t.deepEqual(Object.values(row), ['public', '5min', 'off', 'UTC', 'ISO, MDY']);
  await projects.close();
});

test('a role has its time-outs and limits from the start, and cannot lift what a superuser set', async (t) => {
  const other = await makeDatabase(platform());
  const names = [
    'temp_file_limit',
    'log_min_messages',
    'log_min_error_statement',
    'idle_in_transaction_session_timeout',
  ];
  const read = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join(', ')}`;
  const expected = ['1GB', 'fatal', 'panic', '1min'];
  t.is(await other.stateOf('owner', `alter role "${other.ref}_owner" set temp_file_limit = -1`), denied);
  t.is(await other.stateOf('owner', 'set log_min_messages = log'), denied);
  await other.query('owner', `alter role "${other.ref}_owner" reset all`);
  const [row] = await other.query('owner', read);
  t.deepEqual(Object.values(row ?? {}).slice(0, 3), expected.slice(0, 3));
  t.deepEqual(Object.values((await other.query('service', read))[0] ?? {}), expected);
});
