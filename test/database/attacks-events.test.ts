import test, { type ExecutionContext } from 'ava';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type ProjectDatabase, denied, useDatabase } from './guard-scene.ts';
import { projectWith, withServers } from './limits-scene.ts';

const platform = usePlatform(test);

/** A project of which every write leaves an event; no worker takes them. */
const newProject = async (): Promise<{ project: TestProject; database: ProjectDatabase }> => {
  const project = await projectWith(platform());
  const { db } = platform();
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db, servers }, project.id, [{ table: null, op: null }]),
  );
  await db.query('delete from event_sources where project_id = $1', [project.id]);
  return { project, database: useDatabase(platform(), project) };
};

const body = (code: string): string =>
  `create or replace function told(mood) returns json language plpgsql as $code$ begin ${code}; return '1'; end $code$`;

/** A type of the project's with a cast to JSON, as projects could make it before that was refused: by the platform. */
const plantCast = async (database: ProjectDatabase): Promise<void> => {
  await database.query('owner', `create type mood as enum ('fine')`, body('null'), 'create table trap (m mood)');
  await asAdmin(database.name, (admin) =>
    admin.query('create cast (public.mood as json) with function public.told(public.mood)'),
  );
};

/** The SQLSTATE that the code ends with when it is run while a row becomes JSON; null when it works. */
const spring = (database: ProjectDatabase, code: string): Promise<string | null> =>
  database.stateOf('owner', body(code), `insert into trap values ('fine')`);

const outboxOf = (database: ProjectDatabase): Promise<{ op: string; row: string }[]> =>
  asAdmin(
    database.name,
    async (admin) =>
      (await admin.query<{ op: string; row: string }>('select op, row from plinth.outbox order by id')).rows,
  );

const jsonCasts: Readonly<Record<string, readonly string[]>> = {
  'an enum to json': ['create cast (mood as json) with function to_json_of(mood)'],
  'an enum to json, implicitly': ['create cast (mood as json) with function to_json_of(mood) as implicit'],
  'an enum to jsonb': ['create cast (mood as jsonb) with function to_jsonb_of(mood) as assignment'],
  'a composite type to json': [
    'create type pair as (a int, b int)',
    `create function of_pair(pair) returns json language sql as $$ select '1'::json $$`,
    'create cast (pair as json) with function of_pair(pair)',
  ],
  'the rows of a table to jsonb': [
    'create table rows_of (a int)',
    `create function of_rows(rows_of) returns jsonb language sql as $$ select '1'::jsonb $$`,
    'create cast (rows_of as jsonb) with function of_rows(rows_of)',
  ],
  'a range to json': [
    'create type span as range (subtype = int)',
    `create function of_span(span) returns json language sql as $$ select '1'::json $$`,
    'create cast (span as json) with function of_span(span)',
  ],
  'by the text of its values': ['create cast (mood as json) with inout'],
  'within a block that catches what is refused': [
    `do $$ begin create cast (mood as json) with function to_json_of(mood);
       exception when undefined_object then null; end $$`,
  ],
};

test('no type of a project’s gets a cast to JSON', async (t) => {
  const { database } = await newProject();
  await database.query(
    'owner',
    `create type mood as enum ('fine')`,
    `create function to_json_of(mood) returns json language sql as $$ select '1'::json $$`,
    `create function to_jsonb_of(mood) returns jsonb language sql as $$ select '1'::jsonb $$`,
    `create function to_text_of(mood) returns text language sql as $$ select 'told' $$`,
  );
  for (const [what, statements] of Object.entries(jsonCasts))
    t.is(await database.stateOf('owner', ...statements), denied, what);
  // Rows become JSON without these.
  t.is(await database.stateOf('owner', 'create cast (mood as text) with function to_text_of(mood) as implicit'), null);
  await database.query('owner', 'create table t (m mood)', `insert into t values ('fine')`);
  t.deepEqual(await outboxOf(database), [{ op: 'INSERT', row: '{"m":"fine"}' }]);
});

test('code of a project’s that runs while a row becomes JSON reaches nothing of the platform’s', async (t) => {
  const { database } = await newProject();
  await plantCast(database);
  const attempts = [
    `insert into plinth.outbox (table_name, op, row) values ('trap', 'INSERT', '{"forged":true}')`,
    `insert into plinth.outbox (table_name, op, row) select 'trap', 'INSERT', repeat('x', 90000000)`,
    'perform count(*) from plinth.outbox',
    `perform nextval('plinth.outbox_id_seq')`,
    `perform setval('plinth.rows_1', 0)`,
    'insert into plinth.row_deltas values (1, 50)',
    'update plinth.limits set max_rows = null',
    `perform plinth.is_subscribed('trap', 'INSERT')`,
    'perform plinth.check_insert(1, 1, 1)',
    'alter function plinth.tell_delete() set search_path = public',
    'alter function plinth.on_insert_1() reset all',
    'alter function plinth.row_json(record) security invoker',
    'alter function plinth.on_insert_1() rename to other',
    'drop function plinth.tell_delete() cascade',
    'create trigger plinth_more after insert on public.trap execute function plinth.tell_delete()',
    'drop owned by current_user',
    'create function public.mine() returns int language sql return 1',
    'create temp table mine (x int)',
    'create schema mine',
    'grant plinth_events to session_user',
  ];
  for (const code of attempts) t.true([denied, '0LP01'].includes(String(await spring(database, code))), code);
  t.deepEqual(await outboxOf(database), []);
  await spring(database, `return json_build_object('user', current_user, 'super', current_setting('is_superuser'))`);
  const [reported] = await outboxOf(database);
  t.deepEqual(JSON.parse(reported?.row ?? ''), { m: { user: 'plinth_events', super: 'off' } });
});

const expectsRefusal = async (t: ExecutionContext, database: ProjectDatabase, sql: string): Promise<void> => {
  t.is(await database.stateOf('owner', sql), denied, sql);
};

test('the role that makes JSON of rows is given no right, and owns nothing', async (t) => {
  const { database } = await newProject();
  await database.query('owner', 'create schema own', 'create table own.t (x int)');
  for (const role of ['plinth_events', 'plinth_triggers'])
    for (const sql of [
      `grant create on schema own to ${role}`,
      `grant all on own.t to ${role}`,
      `grant trigger on own.t to ${role}`,
      `alter default privileges grant execute on functions to ${role}`,
      `alter table own.t owner to ${role}`,
      `create policy p on own.t to ${role} using (true)`,
    ])
      await expectsRefusal(t, database, sql);
  const { rows } = await asAdmin(database.name, (admin) =>
    admin.query(
      `select p.proname from pg_proc p where p.proowner = 'plinth_events'::regrole
       union all select relname from pg_class where relowner = 'plinth_events'::regrole`,
    ),
  );
  t.deepEqual(rows, [{ proname: 'row_json' }]);
  t.deepEqual(
    await database.query('owner', `select has_schema_privilege('plinth_events', 'plinth_api', 'create') as creates`),
    [{ creates: false }],
  );
});

test('a trigger of the platform’s that differs in anything from what it should be is refused', async (t) => {
  const { database } = await newProject();
  await database.query('owner', 'create schema own', 'create table own.t (x int)');
  await asAdmin(database.name, async (admin) => {
    const { rows } = await admin.query(`select d.counter from plinth.counted d where d.relation = 'own.t'::regclass`);
    const counter = Number(rows[0].counter);
    const bends = [
      `trigger plinth_insert after insert on own.t referencing new table as new_rows for each statement
         when (false) execute function plinth.on_insert_${counter}()`,
      `trigger plinth_insert after insert on own.t for each row execute function plinth.on_insert_${counter}()`,
      `trigger plinth_insert after insert on own.t referencing new table as new_rows for each statement
         execute function plinth.on_insert_${counter}('part')`,
      `trigger plinth_insert after insert on own.t referencing new table as others for each statement
         execute function plinth.on_insert_${counter}()`,
      `trigger plinth_insert after insert on own.t execute function plinth.on_insert_${counter}()`,
      `trigger plinth_insert before insert on own.t execute function plinth.on_insert_${counter}()`,
      `trigger plinth_count_delete after delete on own.t referencing old table as old_rows for each statement
         execute function plinth.count_delete(${counter + 1}, 'plinth.rows_${counter}', 'root')`,
      `trigger plinth_tell_update after update of x on own.t for each statement
         execute function plinth.tell_update(${counter}, 'plinth.rows_${counter}', 'root')`,
      `trigger plinth_count_delete after delete on own.t referencing old table as old_rows for each statement
         execute function plinth.tell_delete(${counter}, 'plinth.rows_${counter}', 'root')`,
    ];
    for (const bend of bends) {
      await admin.query(`begin; create or replace ${bend}`);
      // As who could make it: nobody of the project's can now. It is noticed at whatever comes next.
      await admin.query(`set local session authorization "${database.ref}_owner"`);
      const state = await admin.query('alter table own.t set schema public').then(
        () => null,
        (error: unknown) => Reflect.get(error as object, 'code') as string,
      );
      t.is(state, denied, bend);
      await admin.query('rollback');
    }
  });
  t.is(await database.stateOf('owner', 'alter table own.t set schema public'), null);
});

test('routines of the platform’s are neither changed nor dropped by who is not the platform', async (t) => {
  const { database } = await newProject();
  await database.query('owner', 'create table t (x int)', 'create schema own');
  const owner = `"${database.ref}_owner"`;
  // As if a project had come to own some of it.
  await asAdmin(database.name, (admin) =>
    admin.query(`
      grant usage, create on schema plinth, plinth_api to ${owner};
      revoke create on schema plinth from ${owner};
      create procedure plinth_api.proc() language sql begin atomic select 1; end;
      create aggregate plinth_api.agg(int) (sfunc = int4pl, stype = int);
      alter function plinth.tell_delete() owner to ${owner};
      alter function plinth.count_truncate() owner to ${owner};
      alter procedure plinth_api.proc() owner to ${owner};
      alter aggregate plinth_api.agg(int) owner to ${owner}`),
  );
  for (const sql of [
    'alter function plinth.tell_delete() set search_path = public',
    'alter function plinth.tell_delete() reset all',
    'alter function plinth.tell_delete() security invoker',
    'alter function plinth.tell_delete() rename to other',
    'alter function plinth.tell_delete() set schema own',
    'alter function plinth.tell_delete() set schema plinth_api',
    'alter function plinth.tell_delete() cost 100000',
    'alter routine plinth.tell_delete() set work_mem = 64',
    `alter function plinth.tell_delete() owner to ${owner}`,
    'alter function plinth.tell_delete() depends on extension plpgsql',
    'alter procedure plinth_api.proc() set search_path = public',
    'alter routine plinth_api.proc() rename to other',
    'alter aggregate plinth_api.agg(int) rename to other',
    'drop function plinth.tell_delete() cascade',
    'drop function plinth.count_truncate() cascade',
    'drop procedure plinth_api.proc()',
    'drop routine plinth_api.proc()',
    'drop aggregate plinth_api.agg(int)',
    'create function plinth_api.more() returns int language sql return 1',
    'create or replace procedure plinth_api.proc() language sql begin atomic select 2; end',
    `do $$ begin drop function plinth.tell_delete() cascade; exception when undefined_object then null; end $$`,
  ])
    await expectsRefusal(t, database, sql);
  await asAdmin(database.name, (admin) =>
    admin.query(`
      alter function plinth.tell_delete() owner to plinth_triggers;
      alter function plinth.count_truncate() owner to current_user`),
  );
  await database.query('owner', 'insert into t values (1)', 'delete from t', 'drop table t');
  t.deepEqual(
    (await outboxOf(database)).map(({ op }) => op),
    ['INSERT', 'DELETE'],
  );
});
