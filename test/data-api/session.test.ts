import test from 'ava';
import { type DataDbDeps, createDataDb } from '#domain/data-api/postgres-db.ts';
import type { DataCaller, DataRun } from '#domain/data-api/data-api.ts';
import { asAdmin } from '#test/support/databases.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { tenantDbOf, useDataScene } from './scene.ts';

const scene = useDataScene(test);

const request = { method: 'POST', path: '/x', headers: '{}' };

const run = (more: Partial<DataRun> = {}): DataRun => ({
  mode: 'write',
  signal: new AbortController().signal,
  ...more,
});

/** The data API's own way in, beside a version of the schema that the test turns. */
const opened = (given: Partial<DataDbDeps> = {}) => {
  const tenantDb = tenantDbOf(scene().platform);
  let version = '1';
  const data = createDataDb({
    tenantDb: {
      use: tenantDb.use,
      useAtLowPriority: tenantDb.useAtLowPriority,
      lease: tenantDb.lease,
      endSession: () => Promise.resolve(),
    },
    schemaVersion: () => version,
    ...given,
  });
  const caller = (role: DataCaller['role'], claims = '{}'): DataCaller => ({
    projectId: scene().project.id,
    role,
    claims,
  });
  return {
    one: (role: DataCaller['role'], text: string, params: readonly string[] = [], more: Partial<DataRun> = {}) =>
      data.one(caller(role, `{"sub":"somebody","role":"${role}"}`), run(more), { text, params }),
    changeSchema: () => {
      version += '1';
    },
    close: tenantDb.close,
  };
};

test('a deferred trigger still knows who it is', async (t) => {
  await scene().asOwner(
    'create table deferred_to (who text)',
    `create table watched (id int)`,
    `create function watch() returns trigger language plpgsql security definer as $$
      begin insert into deferred_to values (auth.jwt() ->> 'sub'); return null; end $$`,
    'create constraint trigger late after insert on watched deferrable initially deferred for each row execute function watch()',
    'alter table watched enable row level security',
    'create policy everybody on watched using (true)',
  );
  const db = opened();
  await db.one('anon', `with made as (insert into watched values (1) returning *) select '', 1`, [], { request });
  t.deepEqual(await scene().rows('select who from deferred_to'), [{ who: 'somebody' }]);
  await db.close();
});

test('a statement takes the types of the schema as it is now', async (t) => {
  await scene().asOwner('create table retyped (id int)', 'insert into retyped values (1)');
  const db = opened();
  const sql = 'select count(*), 1 from public.retyped where id = $1';
  for (let n = 0; n < 3; n += 1) t.deepEqual(await db.one('service', sql, ['1']), ['1', '1']);
  await scene().asOwner('alter table retyped alter id type bigint');
  db.changeSchema();
  t.deepEqual(await db.one('service', sql, ['3000000000']), ['0', '1']);
  await scene().asOwner('alter table retyped alter id type text');
  db.changeSchema();
  t.deepEqual(await db.one('service', sql, ['not a number']), ['0', '1']);
  await db.close();
});

test('what a function sets for the session is gone for the next request', async (t) => {
  await scene().asOwner(
    `create function unsettle() returns int language plpgsql as $$
      begin perform set_config('my.own', 'left', false), set_config('TimeZone', 'Asia/Tokyo', false); return 1; end $$`,
  );
  const db = opened();
  const seen = `select coalesce(current_setting('my.own', true), ''), current_setting('TimeZone')`;
  const [, zone] = await db.one('service', seen);
  for (let n = 0; n < 5; n += 1) {
    await db.one('service', 'select public.unsettle()', [], { request });
    t.deepEqual(await db.one('service', seen), ['', zone ?? '']);
  }
  await db.close();
});

test('a session that was made read-only is not lent again', async (t) => {
  await scene().asOwner(
    'create table to_write (id int)',
    `create function make_read_only() returns trigger language plpgsql as $$
      begin perform set_config('default_transaction_read_only', 'on', false); return new; end $$`,
    'create trigger make_read_only before insert on to_write for each row execute function make_read_only()',
  );
  const db = opened();
  const insert = `with made as (insert into public.to_write values (1) returning *) select '', 1 from made`;
  const outcomes: (string | null)[] = [];
  for (let n = 0; n < 10; n += 1) outcomes.push(await sqlStateOf(db.one('service', insert)));
  // Each that succeeds spoils its session, which refuses one more and is closed then.
  const [made, refused] = [null, '25006'].map((state) => outcomes.filter((one) => one === state).length);
  t.is((made ?? 0) + (refused ?? 0), 10);
  t.true((refused ?? 0) <= (made ?? 0) + 1, outcomes.join(' '));
  await db.close();
});

test('triggers know a secret key when they see one', async (t) => {
  await scene().asOwner(
    'create table asked (who text)',
    'create function note_who() returns trigger language plpgsql as $$ begin new.who := auth.role(); return new; end $$',
    'create trigger note_who before insert on asked for each row execute function note_who()',
  );
  const db = opened();
  const insert = `with made as (insert into public.asked default values returning *) select who, 1 from made`;
  t.deepEqual(await db.one('service', insert), ['service_role', '1']);
  await db.close();
});

test('a statement that nothing interrupts is left behind, and while two go on no other is begun', async (t) => {
  const { platform, user, project: neighbour } = scene();
  const project = await platform.client.createProject(user);
  const tenantDb = tenantDbOf(platform);
  let goesOn = true;
  const data = createDataDb({
    tenantDb: {
      use: tenantDb.use,
      useAtLowPriority: tenantDb.useAtLowPriority,
      lease: tenantDb.lease,
      endSession: () => Promise.resolve(goesOn),
    },
    schemaVersion: () => '1',
    bounds: { maxBytes: 1_000_000, timeoutMs: 50 },
  });
  const ask = (text: string, projectId = project.id) =>
    data.one({ projectId, role: 'service', claims: '{}' }, run(), { text, params: [] });
  const stubborn = `do $$ begin
    for i in 1 .. 1000 loop
      begin perform pg_sleep(3618); exception when query_canceled then null; end;
    end loop;
  end $$`;
  const ends = await Promise.allSettled([ask(stubborn), ask(stubborn)]);
  for (const end of ends) t.like(end, { status: 'rejected', reason: { name: 'NoAnswer' } });
  const refused = { code: 'dependency_unavailable', message: /^2 earlier statements of this project still run/ };
  await t.throwsAsync(ask(`select 'here', 1`), refused);
  t.deepEqual(await ask(`select 'here', 1`, neighbour.id), ['here', '1']);
  goesOn = false;
  t.deepEqual(await ask(`select 'here', 1`), ['here', '1']);
  await asAdmin(project.dbName, (admin) =>
    admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query like '%pg_sleep(3618)%' and pid <> pg_backend_pid()`,
    ),
  );
  await tenantDb.close();
});

/** State that a function may leave in a session, and how the next request would see it. */
const leftovers: readonly { what: string; leave: string; seen: string }[] = [
  {
    what: 'an advisory lock',
    leave: 'perform pg_advisory_lock(4711)',
    seen: 'select count(*)::text from (select 1 where pg_advisory_unlock(4711)) s',
  },
  {
    what: 'a cursor',
    leave: `execute 'declare left_open cursor with hold for select 1'`,
    seen: 'select count(*)::text from pg_cursors where is_holdable',
  },
  {
    what: 'a prepared statement',
    leave: `execute 'prepare left_over as select 1'`,
    seen: 'select count(*)::text from pg_prepared_statements where from_sql',
  },
  {
    what: 'a channel that is listened to',
    leave: `execute 'listen left_channel'`,
    seen: 'select count(*)::text from pg_listening_channels()',
  },
  {
    what: 'a temporary table',
    leave: 'create temp table left_behind (id int)',
    seen: `select count(*)::text from pg_class where relname = 'left_behind' and relnamespace = pg_my_temp_schema()`,
  },
  {
    what: 'a setting',
    leave: `perform set_config('my.left', 'over', false)`,
    seen: `select count(*)::text from (select current_setting('my.left', true) as value) s where value <> ''`,
  },
  {
    what: 'a role',
    leave: `execute 'set role none'`,
    seen: `select count(*)::text from (select 1 where current_user <> session_user) s`,
  },
];

for (const { what, leave, seen } of leftovers) {
  const name = leave.replaceAll(/\W+/g, '_').slice(0, 40).toLowerCase();

  test(`${what} of a function or a trigger never reaches the next request`, async (t) => {
    await scene().asOwner(
      `create table t_${name} (id int)`,
      `create function f_${name}() returns int language plpgsql as $$ begin ${leave}; return 1; end $$`,
      `create function g_${name}() returns trigger language plpgsql as $$ begin ${leave}; return new; end $$`,
      `create trigger g before insert on t_${name} for each row execute function g_${name}()`,
    );
    const db = opened();
    for (let n = 0; n < 3; n += 1) {
      await db.one('service', `select public.f_${name}()::text`, [], { request });
      t.deepEqual(await db.one('service', seen), ['0'], 'by a function');
      await db.one(
        'service',
        `with made as (insert into public.t_${name} values (1) returning *) select '', 1 from made`,
      );
      t.deepEqual(await db.one('service', seen), ['0'], 'by a trigger');
    }
    await db.close();
  });
}

test('nor does what a request that failed took before it did', async (t) => {
  await scene().asOwner(
    `create function lock_and_fail() returns int language plpgsql as $$
      begin perform pg_advisory_lock(4712); execute 'prepare of_a_failure as select 1'; raise exception 'no'; end $$`,
  );
  const db = opened();
  const seen = `select (select count(*) from (select 1 where pg_advisory_unlock(4712)) s)
    + (select count(*) from pg_prepared_statements where from_sql)`;
  for (let n = 0; n < 3; n += 1) {
    t.is(await sqlStateOf(db.one('service', 'select public.lock_and_fail()', [], { request })), 'P0001');
    t.deepEqual(await db.one('service', seen), ['0']);
  }
  await db.close();
});

test('a statement of ours that a function replaces by its own is not run for the next request', async (t) => {
  await scene().asOwner(
    'create table secrets (body text)',
    `insert into secrets values ('theirs')`,
    `create function replace_all() returns int language plpgsql as $$
      declare name text;
      begin
        for name in select p.name from pg_prepared_statements p where not from_sql and statement like '%from public.secrets%' loop
          execute format('deallocate %I', name);
          execute format('prepare %I as select ''forged'', 1', name);
        end loop;
        return 1;
      end $$`,
  );
  const db = opened();
  const read = 'select body, 1 from public.secrets';
  for (let n = 0; n < 3; n += 1) {
    t.deepEqual(await db.one('service', read), ['theirs', '1']);
    await db.one('service', 'select public.replace_all()', [], { request });
  }
  t.deepEqual(await db.one('service', read), ['theirs', '1']);
  await db.close();
});

test('functions that end users call may use temporary tables', async (t) => {
  await scene().asOwner(
    `create function with_temp() returns int language plpgsql as $$
      begin
        create temp table of_request (n int) on commit drop;
        insert into of_request select generate_series(1, 5);
        return (select count(*) from of_request);
      end $$`,
    'grant execute on function with_temp() to anon',
  );
  const db = opened();
  for (const role of ['anon', 'service', 'anon'] as const) {
    t.deepEqual(await db.one(role, 'select public.with_temp()', [], { request }), ['5']);
  }
  await db.close();
});
