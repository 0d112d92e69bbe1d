import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

const wideColumns = 1500;
const repeatedKeys = 60;

test.before('a project with tables', async () => {
  const columns = Array.from({ length: wideColumns }, (_, n) => `c${n} int`).join(', ');
  const keys = Array.from(
    { length: repeatedKeys },
    (_, n) => `constraint key_${n} foreign key (parent) references parents`,
  );
  p = await createRestProject(
    platform(),
    `create table parents (id int primary key);
     create table children (id int primary key, parent int, ${keys.join(', ')});
     create table t (id int primary key, up int constraint fk references t);
     create table wide (id int primary key, up int constraint wide_fk references wide, ${columns})`,
  );
});

/** Each level names the next one several times. */
const filters = (levels: number, times: number): string =>
  Array.from({ length: levels }, (_, level) =>
    Array.from({ length: times }, () => `${Array.from({ length: level + 1 }, () => 'x').join('.')}=is.null`),
  )
    .flat()
    .join('&');

const embedded = (levels: number): string => (levels === 0 ? '' : `x:t!fk(${embedded(levels - 1)})`);

test('conditions on related rows that multiply level by level are refused', async (t) => {
  const answer = await p.rest('GET', `/t?select=id,${embedded(10)}&${filters(10, 20)}`);
  t.like(answer, { status: 400, body: { code: '54001' } });
  t.is((await p.rest('GET', `/t?select=id,${embedded(3)}&${filters(3, 1)}`)).status, 200);
});

test('columns that are spread through several levels count at each of them', async (t) => {
  const spread = (levels: number, inner: string): string =>
    levels === 0 ? inner : `...wide!wide_fk(${spread(levels - 1, inner)})`;
  const many = Array.from({ length: 20 }, () => '...wide!wide_fk(*)').join(',');
  t.like(await p.rest('GET', `/wide?select=${spread(5, many)}`), { status: 400, body: { code: '54011' } });
  t.is((await p.rest('GET', `/wide?select=${spread(2, '...wide!wide_fk(*)')}`)).status, 200);
});

test('arguments that are repeated without end, and more names than a function has parameters, name no function', async (t) => {
  const repeated = Array.from({ length: 20_000 }, () => 'a').join('&');
  t.like(await p.rest('GET', `/rpc/unknown?${repeated}`), { status: 404, body: { code: 'PGRST202' } });
  await p.sql('create function one(p0 int default 1) returns int language sql as $$ select p0 $$');
  const body = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`p${n}`, n]));
  t.like(await p.rest('POST', '/rpc/one', { body }), { status: 404, body: { code: 'PGRST202' } });
});

test('of many foreign keys between two tables some are named as choices', async (t) => {
  const { status, body } = await p.rest('GET', '/children?select=id,parents(id)');
  t.is(status, 300);
  t.is(body.details.length, 50);
  t.is((await p.rest('GET', `/children?select=id,parents!key_${repeatedKeys - 1}(id)`)).status, 200);
});

const insert = (objects: readonly unknown[]) =>
  platform().client.call('POST', '/api/graphql', {
    key: p.project.key,
    body: {
      query: 'mutation ($o: [wide_insert_input!]!) { insert_wide(objects: $o) { affected_rows } }',
      variables: { o: objects },
    },
  });

test('objects to insert have a bound of fields, those that are left out included', async (t) => {
  const few = await insert(Array.from({ length: 3 }, (_, id) => ({ id })));
  t.deepEqual(few.body, { data: { insert_wide: { affected_rows: 3 } } });
  const { body } = await insert([{ id: 10 }, ...Array.from({ length: 1000 }, () => ({}))]);
  t.is(body.errors[0].extensions.code, 'query_too_costly');
  const literals = await platform().client.call('POST', '/api/graphql', {
    key: p.project.key,
    body: { query: `mutation { insert_wide(objects: [${'{}'.repeat(1000)}]) { affected_rows } }` },
  });
  t.is(literals.body.errors[0].extensions.code, 'query_too_costly');
});
