import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from '#test/data-api/rest-project.ts';
import { denied, makeDatabase } from './guard-scene.ts';

const platform = usePlatform(test, { shared: true });

let p: RestProject;

test.before('a project with a range type', async () => {
  p = await createRestProject(
    platform(),
    `create type span as range (subtype = time, multirange_type_name = spans);
     create table shifts (id int primary key, span span not null, breaks spans,
       opens time, closes time, whole span generated always as (span(opens, closes)) stored,
       exclude using gist (span with &&));
     insert into shifts (id, span, breaks, opens, closes)
       values (1, span('08:00', '12:00'), spans(span('09:00', '09:15')), '07:00', '13:00');
     alter table shifts enable row level security;
     create policy everybody on shifts for all using (span && span('00:00', '24:00', '[]'));
     create function double(n int) returns int language sql return n * 2`,
  );
});

test('a range type of the owner’s can be a column, and REST reads and filters it', async (t) => {
  const { status, body } = await p.rest('GET', '/shifts?span=ov.[10:00,11:00)&select=id,span,breaks,whole');
  t.is(status, 200);
  t.deepEqual(body, [
    { id: 1, span: '[08:00:00,12:00:00)', breaks: '{[09:00:00,09:15:00)}', whole: '[07:00:00,13:00:00)' },
  ]);
  const none = await p.rest('GET', '/shifts?span=ov.[12:00,13:00)');
  t.deepEqual(none.body, []);
});

test('end users write rows whose policies and generated columns make ranges', async (t) => {
  const headers = { prefer: 'return=representation' };
  const row = { id: 2, span: '[14:00,15:00)', opens: '14:00', closes: '15:00' };
  const { status, body } = await p.anon('POST', '/shifts?select=whole', { body: row, headers });
  t.deepEqual([status, body], [201, [{ whole: '[14:00:00,15:00:00)' }]]);
});

test('functions of the project’s own stay closed to end users', async (t) => {
  const refused = await p.anon('POST', '/rpc/double', { body: { n: 2 } });
  t.true([401, 403, 404].includes(refused.status), refused.text);
  t.is((await p.rest('POST', '/rpc/double', { body: { n: 2 } })).body, 4);
});

test('what runs SQL in an extension and what is the platform’s stay closed beside a range type', async (t) => {
  const database = await makeDatabase(platform());
  await database.query('owner', 'create extension tablefunc', 'create type floats as range (subtype = float8)');
  t.is(await database.stateAs('anon', `select * from crosstab('select 1, 2, 3') as c (a int, b int)`), denied);
  t.is(await database.stateAs('anon', 'select plinth.refuse_growth()'), denied);
  const open = await asAdmin(database.name, async (admin) => {
    const { rows } = await admin.query<{ name: string }>(
      `select p.oid::regprocedure::text as name from pg_proc p
       where p.oid >= 16384 and p.pronamespace = 'public'::regnamespace and has_function_privilege('public', p.oid, 'execute')
       order by 1`,
    );
    return rows.map(({ name }) => name);
  });
  t.deepEqual(open, [
    'floats(double precision,double precision)',
    'floats(double precision,double precision,text)',
    'floats_multirange()',
    'floats_multirange(floats)',
    'floats_multirange(floats[])',
  ]);
});

test('a function that looks like a range’s is not opened', async (t) => {
  const database = await makeDatabase(platform());
  await database.query(
    'owner',
    'create type own as range (subtype = int)',
    'create function own(a int) returns int language sql return a',
    `create function range_constructor2(a int, b int) returns int language sql as 'select 1 -- range_constructor2'`,
    'create type other as range (subtype = int)',
  );
  t.is(await database.stateAs('anon', 'select public.own(1)'), denied);
  t.is(await database.stateAs('anon', 'select public.range_constructor2(1, 2)'), denied);
  t.is(await database.stateAs('anon', 'select public.own(1, 2), public.other(1, 2)'), null);
});

test('a range type in another schema or of a composite type is as good', async (t) => {
  const database = await makeDatabase(platform());
  t.is(
    await database.stateOf(
      'owner',
      'create schema app',
      'create type app.span as range (subtype = date)',
      `select app.span('2026-01-01', '2026-02-01')`,
      'create type pair as (a int, b int)',
      'create type pairs as range (subtype = pair)',
      'select pairs((1, 2)::pair, (1, 3)::pair)',
      'drop type pairs cascade',
    ),
    null,
  );
});
