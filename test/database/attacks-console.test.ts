import test, { type ExecutionContext } from 'ava';
import { inFence } from '#domain/database/console/fence.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { type Neighbour, openNeighbour } from './neighbour.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let hostile: DatabaseScene;
let neighbour: Neighbour;
let opened: Platform;

test.before('two projects', async () => {
  [hostile, neighbour] = await Promise.all([openScene(platform()), openNeighbour(platform())]);
  opened = await openPlatform(platform().config, memoryLog().log);
});

test.after.always(() => opened?.close());

const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip;

/** It is refused with one of these codes while the neighbour is served, and its project works on. */
const isContained = async (t: ExecutionContext, sql: string, codes: readonly string[]): Promise<void> => {
  const { status, body, text } = await neighbour.unharmed(t, () => hostile.query(sql));
  t.true(status === 400 || status === 503, text);
  t.true(codes.includes(body.code), text);
  t.deepEqual((await hostile.run('select 1 as one')).rows, [{ one: 1 }]);
};

// The sessions that the watchdog ended for their memory; a session that released it in time is none of these.
const memory: Readonly<Record<string, string>> = {
  'a sort in 2 GB of work_mem': `do $$ declare sorted refcursor; first record; begin
    perform set_config('work_mem', '2GB', true);
    open sorted for select repeat(md5(i::text), 40) as x from generate_series(1, 700000) i order by 1;
    fetch sorted into first; perform pg_sleep(600); end $$`,
  'cursors that are left open without end': `do $$ begin for i in 1 .. 10000000 loop
    execute format('declare c%s cursor with hold for select repeat(''x'', 8000)', i); end loop; end $$`,
  'notifications without end': `do $$ begin for i in 1 .. 10000000 loop
    perform pg_notify('everybody', i || repeat('x', 7900)); end loop; end $$`,
  'an array without end': `select array_agg(repeat('x', 1000000)) from generate_series(1, 10000000)`,
};

for (const [what, sql] of Object.entries(memory))
  onLinux(`${what} is ended, and a neighbour is served meanwhile`, (t) => isContained(t, sql, ['53200']));

const refused: Readonly<Record<string, readonly [sql: string, ...codes: string[]]>> = {
  // Where the connection is cut in the middle of the value.
  'a value of 400 MB': [`select repeat('x', 400000000)`, '53200', '54000', 'dependency_unavailable'],
  'a value of 400 MB that is made in a function': [
    `do $$ declare a text := repeat('x', 400000000); begin a := a || a || a; end $$`,
    '53200',
    '54000',
    // More than the server takes for one value.
    'XX000',
  ],
  'a flood of temporary tables': [
    `do $$ begin for i in 1 .. 3000 loop execute format('create temp table flood_%s (x int)', i); end loop; end $$`,
    '53400',
  ],
  'a flood of advisory locks': ['select pg_advisory_lock(n) from generate_series(1, 100000) n', '53400'],
  'a flood of tables': [
    `do $$ begin for i in 1 .. 3000 loop
      execute format('create table flood_%s (a serial unique, b serial unique, c serial unique)', i); end loop; end $$`,
    '53400',
  ],
};

for (const [what, [sql, ...codes]] of Object.entries(refused))
  test.serial(`${what} is refused, and a neighbour is served meanwhile`, (t) => isContained(t, sql, codes));

test.serial('a flood of locks on large objects is ended, and a neighbour is served meanwhile', async (t) => {
  await hostile.run('do $$ begin for i in 1 .. 12000 loop perform lo_create(0); end loop; end $$');
  const sql = `do $$ begin perform lo_unlink(oid) from pg_largeobject_metadata; perform pg_sleep(600); end $$`;
  await isContained(t, sql, ['53200']);
});

// The console's own 30 s are a matter of `console-fence.test.ts`: here as little as shows the same.
const stopped: Readonly<Record<string, string>> = {
  pg_sleep: 'select pg_sleep(3615)',
  'a computation without end':
    'with recursive r (n) as (select 1 union all select n + 1 from r) select count(*) from r',
  'pg_sleep after statement_timeout = 0': `set statement_timeout = 0; select pg_sleep(3616)`,
  'pg_sleep after a time-out of its own': `set statement_timeout = '1h'; select pg_sleep(3617)`,
  'a computation after statement_timeout = 0': `set statement_timeout = 0; select count(*) from generate_series(1, 1e12) n`,
};

for (const [what, sql] of Object.entries(stopped))
  test.serial(`${what} is stopped, and a neighbour is served meanwhile`, async (t) => {
    const { signal } = new AbortController();
    const fence = { projectId: hostile.project.id, role: 'owner', timeoutMs: 300, signal } as const;
    const state = await neighbour.unharmed(t, () =>
      sqlStateOf(inFence(opened.projects.tenantDb, fence, (client) => client.query(sql))),
    );
    t.is(state, '57014');
  });

test.serial('a statement has 30 s by the server and 32 s by who watches it', async (t) => {
  const read = `select current_setting('statement_timeout') as server, current_setting('application_name') as name`;
  t.deepEqual((await hostile.run(read)).rows, [{ server: '30s', name: 'plinth fence 32 s' }]);
});

test.serial('what a call leaves behind ends with it: cursors, memory settings, lifted time-outs', async (t) => {
  const read = `select (select count(*) from pg_cursors where name = 'left_open')::int as cursors,
    current_setting('work_mem') as memory, current_setting('statement_timeout') as patience`;
  const before = (await hostile.run(read)).rows;
  t.like(before[0], { cursors: 0, patience: '30s' });
  for (const sql of [
    'declare left_open cursor with hold for select generate_series(1, 1000000)',
    `select set_config('work_mem', '2GB', false), set_config('statement_timeout', '0', false)`,
    `set work_mem = '2GB'`,
    'set statement_timeout = 0',
    `alter role "${hostile.project.ref}_owner" set statement_timeout = 0`,
    `alter role "${hostile.project.ref}_owner" set idle_in_transaction_session_timeout = 0`,
  ]) {
    t.is((await hostile.query(sql)).status, 200, sql);
    t.deepEqual((await hostile.run(read)).rows, before, sql);
  }
});

for (const sql of [
  'select 1; drop table if exists x',
  'commit; select 1',
  '; select 1; select 2',
  'select 1 /* ; */; commit',
  `select ';'; begin`,
  'begin',
  'commit',
  'rollback',
  'end',
  '/**/ COMMIT AND CHAIN',
  'rollback to savepoint a',
  `prepare transaction 'x'`,
  `commit prepared 'x'`,
  'create table kept_in_console (x int); commit',
])
  test.serial(`several statements and commands of transactions are refused: ${sql}`, async (t) => {
    const { status, text } = await hostile.query(sql);
    t.is(status, 400, text);
    t.deepEqual((await hostile.run(`select to_regclass('kept_in_console') as made`)).rows, [{ made: null }]);
  });

test.serial('a statement that commits in its middle gains nothing by it', async (t) => {
  for (const [sql, code] of [
    ['do $$ begin commit; perform 1/0; end $$', '22012'],
    [`do $$ begin execute 'commit'; end $$`, '0A000'],
    [`do $$ begin commit; set local role anon; end $$`, '42501'],
    [
      `do $$ begin commit; execute 'set session authorization default'; perform pg_read_file('PG_VERSION'); end $$`,
      '42501',
    ],
  ] as const)
    t.is((await hostile.query(sql)).body.code, code, sql);
  const reading = await hostile.query('do $$ begin commit; create table by_reader (x int); end $$', [], hostile.viewer);
  t.is(reading.body.code, '2D000');
});

// Denied; or not on this server, in this state of it or within a transaction.
const outOfReach = new Set(['42501', '42704', '0A000', '55000', '58P01', '25001']);

/** Each of them as a statement of its own and, since the console knows the first word, within one. */
const outside = (): readonly string[] => {
  const own = `"${hostile.project.ref}_owner"`;
  const other = `"${neighbour.ref}_owner"`;
  return [
    `copy told from program 'id'`,
    `copy told to program 'cat'`,
    `copy told from '/etc/passwd'`,
    `copy (select 1) to '/tmp/plinth-intruder'`,
    `select pg_read_file('/etc/passwd')`,
    `select lo_import('/etc/passwd')`,
    `select lo_export(1, '/tmp/plinth-intruder')`,
    'create extension dblink',
    'create extension postgres_fdw',
    'create extension file_fdw',
    'create foreign data wrapper w',
    `set role ${other}`,
    `set local role ${other}`,
    `select set_config('role', '${neighbour.ref}_owner', false)`,
    `set session authorization ${other}`,
    'set role anon',
    `alter role ${own} superuser`,
    `alter role ${own} replication bypassrls`,
    `alter role ${own} connection limit -1`,
    `alter role ${other} password 'x'`,
    `grant ${other} to ${own}`,
    `select pg_create_physical_replication_slot('s')`,
    `select pg_create_logical_replication_slot('s', 'pgoutput')`,
    'create event trigger e on ddl_command_end execute function plinth.on_ddl()',
    'alter event trigger plinth_on_ddl disable',
    'drop event trigger plinth_on_drop',
    'alter table told disable trigger all',
    'alter table told disable trigger plinth_insert',
    'drop trigger plinth_insert on told',
    'alter trigger plinth_insert on told rename to mine',
    'set session_replication_role = replica',
    `drop database "${neighbour.dbName}" with (force)`,
    `alter database "${neighbour.dbName}" rename to mine`,
    `create database mine template "${neighbour.dbName}"`,
    'select datname from pg_database',
    'select rolname from pg_authid',
    'select usename, query from pg_stat_activity',
    'select * from pg_replication_slots',
    'alter system set max_connections = 1',
    'drop schema plinth cascade',
    'drop function plinth.on_ddl() cascade',
    'update pg_class set relchecks = 0',
  ];
};

test.serial('what is outside of the project’s database is out of reach of its console', async (t) => {
  await hostile.run('create table told (x text)');
  const written = async (sql: string, as = hostile.owner) => (await hostile.query(sql, [], as)).body.code;
  await neighbour.unharmed(t, async () => {
    for (const sql of outside()) {
      t.true(outOfReach.has(await written(sql)), `${sql}: ${await written(sql)}`);
      const within = `do $do$ begin execute $sql$${sql}$sql$; end $do$`;
      t.true(outOfReach.has(await written(within)), `${within}: ${await written(within)}`);
      t.not(await written(sql, hostile.viewer), undefined, `as a viewer: ${sql}`);
    }
  });
  for (const sql of [
    'select rolname as name from pg_roles',
    'select grantee as name from information_schema.table_privileges',
  ])
    t.false((await hostile.query(sql)).text.includes(neighbour.ref), sql);
  await hostile.run(`insert into told values ('counted as ever')`);
});
