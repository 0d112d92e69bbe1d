import test from 'ava';
import { parseQuery } from '#domain/data-api/rest/grammar/query.ts';
import { readPlan, returningPlan } from '#domain/data-api/rest/read-plan.ts';
import { createSqlBuilder } from '#domain/data-api/sql/sql.ts';
import { jsonRows, plannedCountSql, plannedRows } from '#domain/data-api/sql/read.ts';
import { selectRows } from '#domain/data-api/sql/select.ts';
import { readOf, useLibrary } from './support/library-db.ts';
import { librarySchema, libraryTable } from './support/library.ts';

const library = useLibrary(test);
const planOf = (table: string, query: string) =>
  readPlan(librarySchema, libraryTable(table), parseQuery(query), { maxLimit: 1000 });

test('values are as exact as the server holds them', async (t) => {
  const text = await library().text('books', 'select=id,price,plain,data&id=gt.5');
  t.is(text, '[{"id":9007199254740995,"price":12345678901.10,"plain":{"z":1, "a":2},"data":{"k": {"x": 1}}}]');
});

test('one shape is one text, whatever the values and the place of the page', (t) => {
  const texts = [
    'select=id,author_id(name)&title=eq.a&id=in.(1,2)&limit=25&offset=5',
    "select=id,author_id(name)&title=eq.b'&id=in.(1)&limit=25&offset=50",
  ].map((query) => readOf('books', query).text);
  t.is(texts[0], texts[1]);
  t.false(texts[0]?.includes("'a'"));
});

test('a limit is part of its statement, and a parameter where policies hide from the planner how many rows there are', (t) => {
  const { table, ...rest } = planOf('books', 'limit=25');
  const textFor = (rowSecurity: boolean): string => {
    const builder = createSqlBuilder();
    return selectRows({ ...rest, table: { ...table, rowSecurity } }, { builder });
  };
  t.regex(textFor(false), /limit 25/);
  t.regex(textFor(true), /limit \$\d/);
});

test('rows are counted beyond the page', async (t) => {
  const [row] = await library().run(readOf('books', 'limit=2&author_id=not.is.null', { exactCount: true }));
  t.like(row, { n: '2', total: '3' });
  const [inner] = await library().run(
    readOf('publishers', 'select=*,books!inner()&books.id=eq.3&limit=0', { exactCount: true }),
  );
  t.deepEqual({ ...inner }, { body: '[]', n: '0', total: '1' });
  const [groups] = await library().run(readOf('books', 'select=publisher_id,count()&limit=1', { exactCount: true }));
  t.like(groups, { n: '1', total: '3' });
  const [uncounted] = await library().run(readOf('books', 'limit=1'));
  t.like(uncounted, { total: null });
});

test('an estimate comes from the planner', async (t) => {
  const [row] = await library().run(
    plannedCountSql(planOf('books', 'id=in.(1,2)&select=id,authors!author_id!inner()')),
  );
  t.true(plannedRows(Object.values(row ?? {})[0] ?? '') > 0);
});

test('an object is the first row, or null', async (t) => {
  t.is(await library().text('genres', 'order=id', { shape: 'object' }), '{"id":1,"name":"fiction"}');
  t.is(await library().text('genres', 'id=eq.9', { shape: 'object' }), 'null');
});

test('a page is bounded, that of related rows too', (t) => {
  const plan = planOf('publishers', 'select=id,books(id)&limit=5000');
  t.is(plan.limit, 1000);
  t.is(plan.fields[1]?.kind === 'relation' && plan.fields[1].plan.limit, 1000);
  t.is(planOf('publishers', 'limit=99999999999999999999').limit, 1000);
  t.is(planOf('publishers', 'limit=3&limit=4').limit, 4);
});

test('a key that is asked for twice comes twice, also through a spread', async (t) => {
  t.is(await library().text('genres', 'select=id,x:id,id&id=eq.1'), '[{"id":1,"x":1,"id":1}]');
  const text = await library().text('books', 'select=...publishers(id,name,id)&id=eq.3');
  t.is(text, '[{"id":2,"name":"Fox","id":2}]');
});

test('names of every kind come back as they are', async (t) => {
  const all = await library().get('odd, (table)', 'order=select&limit=1');
  const row = { select: 1, 'a.b': 'dots', 'naïve "x"': 'quotes "and" back\\slash', t1: 'x', t2: 'line\ntwo' };
  t.deepEqual(all, [row]);
  const query = `select=select,"a.b","naïve \\"x\\"",t1,t2&"a.b"=eq.dots&order=t1,"a.b".desc`;
  t.deepEqual(await library().get('odd, (table)', query), [row]);
});

test('CSV is quoted where it must be, and keeps null and empty apart', async (t) => {
  const text = await library().text('odd, (table)', 'order=select', { shape: 'csv' });
  t.is(text, 'select,a.b,"naïve ""x""",t1,t2\n1,dots,"quotes ""and"" back\\slash",x,"line\ntwo"\n2,"",,,');
});

test('CSV has its line of names without rows, and related rows as JSON', async (t) => {
  t.is(await library().text('genres', 'id=eq.9', { shape: 'csv' }), 'id,name');
  const text = await library().text(
    'books',
    'select=id,sold,covers(url),...publishers(*),genres()&id=in.(2,4)&order=id',
    { shape: 'csv' },
  );
  t.is(text, 'id,sold,covers,id,name\n2,false,"{""url"":""http://cover""}",1,Owl\n4,,,,');
});

test('CSV of groups and spread lists', async (t) => {
  const query = 'select=name,...books(ids:id)&books.order=id&order=id';
  t.is(await library().text('publishers', query, { shape: 'csv' }), 'name,ids\nOwl,"[2, 9007199254740995]"\nFox,[3]');
  const groups = 'select=publisher_id,count()&order=publisher_id&limit=1';
  t.is(await library().text('books', groups, { shape: 'csv' }), 'publisher_id,count\n1,2');
});

test('rows without a column are empty objects', async (t) => {
  t.is(await library().text('books', 'select=covers!inner()'), '[{}]');
  t.is(await library().text('books', 'select=covers!inner()', { shape: 'csv' }), '\n');
});

test('casts go to types of the grammar, of the server and of the project', async (t) => {
  const query = 'select=a:id::text,b:price::int,c:price::double precision,d:mood::text,e:tags::text[]&id=eq.2';
  await t.throwsAsync(library().get('books', query), { code: '42703' });
  t.deepEqual(await library().get('books', query.replace('d:mood::text,', '')), [{ a: '2', b: 5, c: 5, e: [] }]);
  t.deepEqual(await library().get('authors', 'select=x:name::TEXT,y:mood::mood,z:mood::character varying&id=eq.2'), [
    { x: 'Bob', y: 'so so', z: 'so so' },
  ]);
});

test('a path is called by its last key', async (t) => {
  const query = 'select=profile->city->>name,profile->n->1,m:profile->n,profile->>0&id=eq.1';
  t.is(await library().text('authors', query), '[{"name":"Paris","n":20,"m":[10, 20],"profile":null}]');
});

test('what a write answers is read from what it wrote', async (t) => {
  const table = libraryTable('books');
  const parsed = parseQuery('id=eq.1&limit=1&offset=7&select=title,publishers(name)&publishers.name=eq.Owl&order=id');
  const builder = createSqlBuilder();
  const rows = selectRows(returningPlan(librarySchema, table, parsed, { maxLimit: 1000 }), {
    builder,
    from: 'changed',
  });
  const text = `with changed as (select * from books where id < 4) select json_agg(r.*)::text as body from (${rows}) r`;
  const [row] = await library().run(builder.finish(text));
  t.deepEqual(JSON.parse(row?.['body'] ?? ''), [
    { title: 'Second "one"', publishers: { name: 'Owl' } },
    { title: '50%', publishers: null },
  ]);
});

test('several readings stand in one statement', async (t) => {
  const builder = createSqlBuilder();
  const list = jsonRows(planOf('genres', 'name=eq.poetry'), builder, 'array');
  const one = jsonRows(planOf('genres', 'id=eq.1'), builder, 'object');
  const none = jsonRows(planOf('genres', 'id=eq.7'), builder, 'object');
  const [row] = await library().run(builder.finish(`select json_build_array(${list}, ${one}, ${none})::text as body`));
  t.deepEqual(JSON.parse(row?.['body'] ?? ''), [[{ id: 2, name: 'poetry' }], { id: 1, name: 'fiction' }, null]);
});

test('a statement does not bind more than the wire can carry', (t) => {
  const builder = createSqlBuilder();
  for (let index = 0; index < 65_535; index += 1) builder.bind('x');
  t.throws(() => builder.bind('x'), { message: 'The request holds too many values.' });
});
