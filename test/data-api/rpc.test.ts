import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

test.before('a project with functions', async () => {
  p = await createRestProject(
    platform(),
    `create table films (id int primary key, title text, director_id int);
     create table directors (id int primary key, name text);
     alter table films add foreign key (director_id) references directors;
     insert into directors values (1, 'Ida');
     insert into films values (1, 'A', 1), (2, 'B', 1), (3, 'C', null);
     create table written (what text);
     create function add(a int, b int default 10) returns int language sql immutable as 'select a + b';
     create function add(a text, c text) returns text language sql immutable as 'select a || c';
     create function echo(v bigint) returns bigint language sql stable as 'select v';
     create function shout(t text) returns text language sql stable as 'select upper(t)';
     create function whole(json) returns json language sql stable as 'select $1';
     create function bytes(bytea) returns int language sql stable as 'select length($1)';
     create function words(text) returns text language sql stable as 'select upper($1)';
     create function all_films() returns setof films language sql stable as 'select * from films';
     create function one_film(film int) returns films language sql stable as 'select * from films where id = film';
     create function numbers(upto int) returns setof int language sql stable as 'select generate_series(1, upto)';
     create function pairs(n int) returns table (a int, b text) language sql stable as 'select i, ''x'' || i from generate_series(1, n) i';
     create function note(t text) returns void language sql volatile as 'insert into written values (t)';
     create function noted(t text) returns setof written language sql volatile as 'insert into written values (t), (t) returning *';
     create function total(variadic n int[]) returns bigint language sql stable as 'select sum(i) from unnest(n) i';
     create function first_of(list int[]) returns int language sql stable as 'select list[1]';
     create function same(x int) returns int language sql stable as 'select x';
     create function same(x text) returns text language sql stable as 'select x';
     create function nothing() returns text language sql stable as 'select null::text';
     create function teapot() returns void language plpgsql as $$ begin raise sqlstate 'PT418' using message = 'short', detail = 'stout', hint = 'tip'; end $$;
     create function broken() returns void language plpgsql as $$ begin raise exception 'my words'; end $$;
     create function custom() returns void language plpgsql as $$ begin
       raise sqlstate 'PGRST' using message = '{"code":"123","message":"Payment","details":"d","hint":"h"}', detail = '{"status":402,"headers":{}}'; end $$;
     create function own_answer() returns json language plpgsql as $$ begin
       perform set_config('response.status', '202', true);
       perform set_config('response.headers', '[{"X-Own": "yes"},{"Content-Length": "1"}]', true);
       return '{"a":1}'; end $$;
     create function asked() returns json language sql stable as
       $$ select json_build_object('method', current_setting('request.method', true), 'path', current_setting('request.path', true),
          'agent', current_setting('request.headers', true)::json ->> 'x-mine', 'key', current_setting('request.headers', true)::json ->> 'apikey') $$`,
  );
});

test('arguments come by name, from the body or the query', async (t) => {
  const posted = await p.rest('POST', '/rpc/add', { body: { a: 1, b: 2 } });
  t.deepEqual([posted.status, posted.text], [200, '3']);
  t.is((await p.rest('POST', '/rpc/add', { body: { a: 1 } })).text, '11');
  t.is((await p.rest('GET', '/rpc/add?a=5&b=6')).text, '11');
  t.is((await p.alias('POST', '/rpc/add', { body: { a: 1, b: 2 } })).text, '3');
});

test('overloads are told apart by the names that are given', async (t) => {
  t.is((await p.rest('POST', '/rpc/add', { body: { a: 'x', c: 'y' } })).text, '"xy"');
  const { status, body } = await p.rest('POST', '/rpc/same', { body: { x: 1 } });
  t.deepEqual([status, body.code], [300, 'PGRST203']);
});

test('numbers pass exactly, in both directions', async (t) => {
  t.is((await p.rest('POST', '/rpc/echo', { raw: '{"v":9007199254740995}' })).text, '9007199254740995');
  t.is((await p.rest('GET', '/rpc/echo?v=9007199254740995')).text, '9007199254740995');
});

test('a text argument that looks like a filter is an argument', async (t) => {
  t.is((await p.rest('GET', '/rpc/shout?t=in.the.end')).text, '"IN.THE.END"');
});

test('the whole body is the argument of a function whose parameter has no name', async (t) => {
  t.is(
    (await p.rest('POST', '/rpc/whole', { raw: '{"n":9007199254740995,"a":[1]}' })).text,
    '{"n":9007199254740995,"a":[1]}',
  );
  t.is((await p.rest('POST', '/rpc/whole', { raw: '[1,2]' })).text, '[1,2]');
  const words = await p.rest('POST', '/rpc/words', { raw: 'a "b"', headers: { 'content-type': 'text/plain' } });
  t.is(words.body, 'A "B"');
  const bytes = await p.rest('POST', '/rpc/bytes', {
    raw: Buffer.from([0, 255, 1]),
    headers: { 'content-type': 'application/octet-stream' },
  });
  t.is(bytes.text, '3');
});

test('rows that a function returns are filtered, ordered, paged, counted and embedded as those of a table', async (t) => {
  const path = '/rpc/all_films?select=id,directors(name)&id=gt.1&order=id.desc&limit=1';
  const { status, body, headers } = await p.rest('POST', path, { headers: { prefer: 'count=exact' } });
  t.is(status, 206);
  t.deepEqual(body, [{ id: 3, directors: null }]);
  t.is(headers.get('content-range'), '0-0/2');
  const got = await p.rest('GET', '/rpc/all_films?id=eq.1&select=directors(name)');
  t.deepEqual(got.body, [{ directors: { name: 'Ida' } }]);
});

test('rows of RETURNS TABLE are filtered by columns that only the server knows', async (t) => {
  const { body } = await p.rest('GET', '/rpc/pairs?n=4&a=gte.3&select=b&order=a.desc');
  t.deepEqual(body, [{ b: 'x4' }, { b: 'x3' }]);
  const unknown = await p.rest('GET', '/rpc/pairs?n=4&nope=eq.3');
  t.deepEqual([unknown.status, unknown.body.code], [400, '42703']);
  const csv = await p.rest('GET', '/rpc/pairs?n=2&select=a,b', { headers: { accept: 'text/csv' } });
  t.is(csv.text, 'a,b\n1,x1\n2,x2');
  t.is((await p.rest('GET', '/rpc/pairs?n=2', { headers: { accept: 'text/csv' } })).status, 406);
});

test('one row is an object, values are a list, no value is null', async (t) => {
  t.deepEqual((await p.rest('POST', '/rpc/one_film', { body: { film: 2 } })).body, {
    id: 2,
    title: 'B',
    director_id: 1,
  });
  t.is((await p.rest('GET', '/rpc/numbers?upto=3')).text, '[1, 2, 3]');
  t.is((await p.rest('GET', '/rpc/numbers?upto=9&limit=2&offset=1')).text, '[2, 3]');
  t.is((await p.rest('GET', '/rpc/numbers?upto=0')).text, '[]');
  t.is((await p.rest('GET', '/rpc/nothing')).text, 'null');
});

test('arrays and variadic parameters', async (t) => {
  t.is((await p.rest('POST', '/rpc/first_of', { body: { list: [7, 8] } })).text, '7');
  t.is((await p.rest('GET', '/rpc/first_of?list={7,8}')).text, '7');
  t.is((await p.rest('GET', '/rpc/total?n=1&n=2&n=3')).text, '6');
  t.is((await p.rest('POST', '/rpc/total', { body: { n: [1, 2] } })).text, '3');
});

test('a function that returns nothing is 204', async (t) => {
  const { status, text } = await p.rest('POST', '/rpc/note', { body: { t: 'void' } });
  t.deepEqual([status, text], [204, '']);
  t.is((await p.rest('GET', '/written?what=eq.void')).body.length, 1);
});

test('GET changes nothing, not even with a secret key', async (t) => {
  for (const method of ['GET', 'HEAD']) {
    const { status } = await p.rest(method, '/rpc/note?t=by-get');
    t.is(status, 405);
  }
  const { body } = await p.rest('GET', '/rpc/note?t=by-get');
  t.is(body.code, '25006');
  t.deepEqual((await p.rest('GET', '/written?what=eq.by-get')).body, []);
});

test('max-affected undoes a function that returns too much', async (t) => {
  const headers = { prefer: 'handling=strict, max-affected=1' };
  const many = await p.rest('POST', '/rpc/noted', { body: { t: 'many' }, headers });
  t.deepEqual([many.status, many.body.code], [400, 'PGRST124']);
  t.deepEqual((await p.rest('GET', '/written?what=eq.many')).body, []);
  const scalar = await p.rest('POST', '/rpc/add', { body: { a: 1 }, headers });
  t.deepEqual([scalar.status, scalar.body.code], [400, 'PGRST128']);
});

test('a function that is not there is 404, and what is near is named', async (t) => {
  const typo = await p.rest('POST', '/rpc/ad', { body: { a: 1 } });
  t.deepEqual([typo.status, typo.body.code], [404, 'PGRST202']);
  t.regex(typo.body.hint, /public\.add/);
  const wrong = await p.rest('POST', '/rpc/echo', { body: { w: 1 } });
  t.deepEqual([wrong.status, wrong.body.code], [404, 'PGRST202']);
  t.regex(wrong.body.hint, /echo\(v\)/);
  t.is((await p.rest('POST', '/rpc/echo', { body: { v: 1, w: 1 } })).status, 404);
  t.is((await p.rest('POST', '/rpc/whole', { body: {}, headers: { 'content-type': 'text/plain' } })).status, 404);
});

for (const [raw, status, code] of [
  ['{"v":', 400, 'PGRST102'],
  ['{"v":"x"}', 400, '22P02'],
  ['{"":1}', 404, 'PGRST202'],
  ['[]', 404, 'PGRST202'],
  ['null', 404, 'PGRST202'],
] as const) {
  test(`echo(${raw}) is ${code}`, async (t) => {
    const answer = await p.rest('POST', '/rpc/echo', { raw });
    t.deepEqual([answer.status, answer.body.code], [status, code]);
  });
}

test('what a function raises is told in its words', async (t) => {
  const teapot = await p.rest('POST', '/rpc/teapot');
  t.is(teapot.status, 418);
  t.like(teapot.body, { code: 'PT418', message: 'short', details: 'stout', hint: 'tip' });
  t.like((await p.rest('POST', '/rpc/broken')).body, { code: 'P0001', message: 'my words' });
  const custom = await p.rest('POST', '/rpc/custom');
  t.is(custom.status, 402);
  t.like(custom.body, { code: '123', message: 'Payment', details: 'd', hint: 'h' });
});

test('a function sets status and headers of its answer', async (t) => {
  const { status, headers, text } = await p.rest('POST', '/rpc/own_answer');
  t.deepEqual([status, headers.get('x-own'), text], [202, 'yes', '{"a":1}']);
  t.is((await p.rest('POST', '/rpc/add', { body: { a: 1 } })).status, 200);
});

test('a function sees the request, but no credentials', async (t) => {
  const { body } = await p.rest('GET', '/rpc/asked', { headers: { 'x-mine': 'me' } });
  t.like(body, { method: 'GET', agent: 'me', key: null });
  t.true(body.path.endsWith('/v1/rest/rpc/asked'));
});

test('an anonymous caller needs EXECUTE', async (t) => {
  const refused = await p.anon('POST', '/rpc/shout', { body: { t: 'x' } });
  t.deepEqual([refused.status, refused.body.code], [403, '42501']);
  await p.sql(
    'create function open_to_all() returns int language sql stable as $$select 1$$; grant execute on function open_to_all to anon',
  );
  t.is((await p.anon('POST', '/rpc/open_to_all')).text, '1');
});

test('other methods are refused on functions', async (t) => {
  t.is((await p.rest('DELETE', '/rpc/add')).status, 405);
});
