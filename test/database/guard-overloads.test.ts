import test from 'ava';
import { sweepDatabase } from '#domain/database/usage.ts';
import { upgradeDatabase } from '#domain/database-servers/provision.ts';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { deletedProjectJobs } from '#domain/jobs/abandon.ts';
import { createProjects } from '#domain/projects/projects.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { createRelayConnections } from '#workers/relay/connections.ts';
import { drainSource } from '#workers/relay/relay.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { type ProjectDatabase, makeDatabase, useDatabase } from './guard-scene.ts';
import { withServers } from './limits-scene.ts';

const platform = usePlatform(test, { shared: true });

/** Sequences keep what a rollback would take back. `ran`: somebody was led astray; `seen`: it was the platform. */
const subscribers = [
  'create sequence seen',
  'create sequence ran',
  `create function hear() returns void language plpgsql as $$ begin
     perform nextval('public.ran');
     if has_schema_privilege(current_user, 'plinth', 'create') then perform nextval('public.seen'); end if;
   exception when insufficient_privilege then null; end $$`,
  'grant usage on sequence ran, seen to public',
  'grant execute on function hear() to public',
];

/** Fits better than what the server has under that name. */
const overload = (name: string, types: string, result: string, value: string): string =>
  `create function public.${name}(${types}) returns ${result} language plpgsql as $$ begin
     perform public.hear(); return ${value}; end $$`;

let operators = 0;
const operator = (left: string, sign: string, right: string, value: string): string[] => {
  const name = `as_operator_${(operators += 1)}`;
  return [
    overload(name, `${left}, ${right}`, sign === '||' ? 'text' : 'boolean', value),
    `create operator public.${sign} (leftarg = ${left}, rightarg = ${right}, function = public.${name})`,
  ];
};

const overloads = [
  overload('pg_total_relation_size', 'oid', 'bigint', '0'),
  overload('pg_table_size', 'oid', 'bigint', '0'),
  overload('quote_ident', 'name', 'text', '$1'),
  overload('format', 'text, text', 'text', `pg_catalog.concat('select 1')`),
  overload('format', 'text, integer', 'text', `pg_catalog.concat('select 1')`),
  overload('starts_with', 'name, text', 'boolean', 'false'),
  ...operator('text', '||', 'integer', '$1'),
  ...operator('text', '||', 'bigint', '$1'),
  ...operator('text', '||', 'name', '$1'),
  ...operator('oid', '=', 'regclass', 'false'),
  ...operator('regclass', '=', 'oid', 'false'),
  ...operator('bigint', '<>', 'integer', 'false'),
  ...operator('name', '=', 'name', 'false'),
];

const received = async ({ name }: ProjectDatabase): Promise<{ ran: boolean; seen: boolean }> =>
  asAdmin(name, async (admin) => {
    const read = 'select (select is_called from public.ran) as ran, (select is_called from public.seen) as seen';
    return (await admin.query(read)).rows[0];
  });

/** All that the platform does in a project's database of its own accord. */
const doAll = async ({ id }: ProjectDatabase): Promise<void> => {
  const { db, config } = platform();
  const project = await findProject(db, id);
  if (project === undefined) throw new Error('there is no project');
  const { log } = memoryLog();
  const keyRing = openKeyRing(config.PLINTH_SECRET_KEYS);
  await withServers(platform(), async (servers) => {
    const { sealer } = createProjects({
      db,
      servers,
      keyRing,
      jobs: deletedProjectJobs(db),
      tenantConnections: 1,
      log,
    });
    await setTableSubscriptions({ db, servers }, id, [{ table: null, op: null }]);
    await sweepDatabase(servers, project);
    const source = { project_id: id, server_id: project.server_id, db_name: project.db_name };
    const connections = createRelayConnections({ servers, max: 0 });
    await drainSource({ db, connections, log }, source as never);
    await upgradeDatabase({ db, servers, sealer: sealer(project) }, project);
  });
};

const scene = async (): Promise<{ database: ProjectDatabase; usage: () => Promise<number> }> => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const usage = async () => (await client.call('GET', `/projects/${project.id}/usage`, { token: user.token })).status;
  return { database: useDatabase(platform(), project), usage };
};

test('the platform calls no function or operator that a project put into public', async (t) => {
  const { database, usage } = await scene();
  await database.query('owner', ...subscribers, ...overloads, 'create table before (x int)');
  t.is(await usage(), 200);
  await doAll(database);
  await database.query(
    'owner',
    'create table after (id serial primary key, x int)',
    'alter table after enable row level security',
    'create schema more create table t (x int) create view v as select * from t',
    'grant select on after to anon',
    'insert into after (x) values (1), (2)',
    'update after set x = 3',
    'delete from after where id = 1',
    'truncate after, before',
    'drop table before',
  );
  t.is(await usage(), 200);
  await doAll(database);
  t.false((await received(database)).seen);
  // A superuser's session that looks into public is led astray: the trap works.
  await asAdmin(database.name, (admin) => admin.query(`select pg_total_relation_size('public.seen'::regclass::oid)`));
  t.true((await received(database)).seen);
});

test('every function of the platform has a search path of its own, or is bound', async (t) => {
  const database = await makeDatabase(platform());
  const { rows } = await asAdmin(database.name, (admin) =>
    admin.query(
      `select p.proname from pg_proc p join pg_language l on l.oid = p.prolang
       where p.pronamespace::regnamespace::text in ('plinth', 'plinth_api', 'plinth_migrations', 'auth')
         and p.oid >= 16384 and l.lanname in ('sql', 'plpgsql') and p.prosqlbody is null
         and coalesce(array_to_string(p.proconfig, ';'), '') not like '%search_path=pg_catalog, pg_temp%' order by 1`,
    ),
  );
  // Constants that become part of their callers' plans.
  const inlined = ['is_size_exceeded', 'is_subscribed', 'max_rows'];
  // A setting of its own would hold within the cursor that it reads, too. It runs as its caller.
  const unset = new Set([...inlined, 'fetch_lines']);
  t.deepEqual(
    rows.filter(({ proname }) => !unset.has(proname)),
    [],
  );
});

/** Immutable for the planner, which calls it; what it does it does by another one. */
const foolPlanner = [
  ...subscribers,
  ...operator('bigint', '<>', 'integer', 'true'),
  ...operator('bigint', '>', 'integer', 'true'),
  ...operator('integer', '=', 'integer', 'true'),
  `create function act() returns void language plpgsql volatile as $$ begin
     perform public.hear();
     -- Stays in the session when the function is left, before what the caller looks up next.
     perform set_config('search_path', 'public, pg_catalog', false);
   end $$`,
  `create function fold(text) returns int language plpgsql immutable as $$ begin perform public.act(); return 1; end $$`,
  'grant execute on all functions in schema public to public',
];

const traps: Readonly<Record<string, readonly string[]>> = {
  'the expression of extended statistics': [`create statistics fooled on (x + fold('k')), x from t`],
  'the predicate of an index': [`create index on t (x) where x > fold('k')`],
  'the expression of an index': [`create index on t ((x + fold('k')))`],
  'a check constraint': [`alter table t add constraint fooled check (x < fold('k') + 100000)`],
};

for (const [what, trap] of Object.entries(traps))
  test(`counting rows runs nothing of the project’s as the platform: ${what}`, async (t) => {
    const database = await makeDatabase(platform());
    await database.query('owner', 'create table t (x int)', `insert into t select generate_series(1, 10)`);
    await database.query('owner', ...foolPlanner, ...trap);
    await database.query('owner', `alter sequence ran restart`, 'truncate t');
    await database.query(
      'owner',
      'insert into t values (1)',
      'create table parent (x int)',
      'alter table t inherit parent',
    );
    await database.query('owner', 'alter table t no inherit parent', 'drop table parent');
    await doAll(database);
    t.false((await received(database)).seen);
    const { rows } = await asAdmin(database.name, (admin) =>
      admin.query(
        `select sum(d.delta)::int as held from plinth.row_deltas d join plinth.counters c on c.id = d.counter
         where c.root = 'public.t'::regclass`,
      ),
    );
    t.deepEqual(rows, [{ held: 1 }]);
  });

test('the planner does call what is planted, as the project’s own role', async (t) => {
  const database = await makeDatabase(platform());
  await database.query('owner', 'create table t (x int)', ...foolPlanner);
  await database.query('owner', `create statistics fooled on (x + fold('k')), x from t`);
  await database.query('owner', 'alter sequence ran restart', 'truncate t');
  t.deepEqual(await received(database), { ran: true, seen: false });
});

test('rows are counted for a project that took the right to read from its roles', async (t) => {
  const database = await makeDatabase(platform());
  await database.query(
    'owner',
    'create schema own create table t (x int)',
    `revoke all on schema own from "${database.ref}_service"`,
    `revoke all on own.t from "${database.ref}_service"`,
    'truncate own.t',
  );
  t.is(await database.stateOf('service', 'select * from own.t'), null);
});

test('the function that counts cannot be changed by the role that it counts as', async (t) => {
  const database = await makeDatabase(platform());
  for (const sql of [
    'alter function plinth.count_rows(regclass[]) rename to other',
    'drop function plinth.count_rows(regclass[])',
    `select plinth.count_rows(array['pg_class'::regclass])`,
    'create or replace function plinth.count_rows(relations regclass[]) returns bigint language sql as $$ select 0::bigint $$',
    'drop owned by current_user',
    `reassign owned by current_user to "${database.ref}_owner"`,
  ])
    t.is(await database.stateOf('service', sql), '42501', sql);
});
