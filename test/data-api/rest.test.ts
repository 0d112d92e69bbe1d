import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

test.before('a project with tables', async () => {
  p = await createRestProject(
    platform(),
    `create table numbers (n int primary key, half numeric, note text);
     comment on table numbers is 'Ten of them';
     insert into numbers select i, i / 2.0, case when i % 2 = 0 then 'even' end from generate_series(1, 10) i;
     create table many (n int);
     insert into many select generate_series(1, 1200);
     analyze many;
     create table "Odd ""name"" é" (id int primary key, "select" text);
     insert into "Odd ""name"" é" values (1, 'x');
     create function twice(n int) returns int language sql stable as 'select n * 2'`,
  );
});

const single = 'application/vnd.pgrst.object+json';

test('every prefix answers the same rows', async (t) => {
  const { client } = platform();
  const { key, ref } = p.project;
  for (const root of [`/p/${ref}/v1/rest`, '/v1/rest', `/p/${ref}/rest/v1`, '/rest/v1', '/api/data']) {
    for (const headers of [{ apikey: key }, { 'x-api-key': key }, { authorization: `Bearer ${key}` }]) {
      const { status, body } = await client.call('GET', `${root}/numbers?n=eq.3&select=n,half`, { headers });
      t.deepEqual([status, body], [200, [{ n: 3, half: 1.5 }]], root);
    }
  }
});

test('without a key, with a wrong one, or on another project’s address it is 401', async (t) => {
  const { client } = platform();
  const other = await client.createProject(await client.signUp());
  t.is((await client.call('GET', '/v1/rest/numbers')).status, 401);
  t.is((await client.call('GET', '/v1/rest/numbers', { key: `${p.project.key}x` })).status, 401);
  t.is((await client.call('GET', `/p/${other.ref}/v1/rest/numbers`, { key: p.project.key })).status, 401);
  const wrong = await client.call('GET', '/v1/rest/numbers', { key: other.key });
  t.deepEqual([wrong.status, wrong.body.code], [404, 'PGRST205']);
});

test('Content-Range says which rows these are, 206 that there are more', async (t) => {
  const plain = await p.rest('GET', '/numbers?order=n&limit=3');
  t.deepEqual([plain.status, plain.headers.get('content-range')], [200, '0-2/*']);
  const counted = await p.rest('GET', '/numbers?limit=3&offset=2', { headers: { prefer: 'count=exact' } });
  t.deepEqual([counted.status, counted.headers.get('content-range')], [206, '2-4/10']);
  t.is(counted.headers.get('preference-applied'), 'count=exact');
  const all = await p.rest('GET', '/numbers?n=lt.4', { headers: { prefer: 'count=exact' } });
  t.deepEqual([all.status, all.headers.get('content-range')], [200, '0-2/3']);
  const none = await p.rest('GET', '/numbers?n=lt.0', { headers: { prefer: 'count=exact' } });
  t.deepEqual([none.status, none.headers.get('content-range'), none.text], [200, '*/0', '[]']);
});

test('the Range header is a page, too, and narrows that of the query', async (t) => {
  const first = await p.rest('GET', '/numbers?select=n&order=n', { headers: { range: '2-3', 'range-unit': 'items' } });
  t.deepEqual(first.body, [{ n: 3 }, { n: 4 }]);
  const open = await p.rest('GET', '/numbers?select=n&order=n', { headers: { range: '8-' } });
  t.deepEqual(open.body, [{ n: 9 }, { n: 10 }]);
  const both = await p.rest('GET', '/numbers?select=n&order=n&limit=5', { headers: { range: '3-9' } });
  t.deepEqual(both.body, [{ n: 4 }, { n: 5 }]);
  const bytes = await p.rest('GET', '/numbers?n=eq.1', { headers: { range: 'bytes=0-9' } });
  t.is(bytes.body.length, 1);
  const write = await p.rest('DELETE', '/numbers?n=eq.-1', { headers: { range: '0-0' } });
  t.is(write.status, 204);
});

test('a range that cannot be is 416', async (t) => {
  const backwards = await p.rest('GET', '/numbers', { headers: { range: '5-2' } });
  t.deepEqual([backwards.status, backwards.body.code], [416, 'PGRST103']);
  const beyond = await p.rest('GET', '/numbers?offset=50', { headers: { prefer: 'count=exact' } });
  t.deepEqual([beyond.status, beyond.body.code], [416, 'PGRST103']);
  t.is(beyond.headers.get('content-range'), '*/10');
  t.is((await p.rest('GET', '/numbers?limit=-1')).status, 416);
  t.is((await p.rest('GET', '/numbers?limit=x')).status, 400);
});

test('a page holds at most 1,000 rows', async (t) => {
  t.is((await p.rest('GET', '/many')).body.length, 1000);
  t.is((await p.rest('GET', '/many?limit=5000')).body.length, 1000);
  const ranged = await p.rest('GET', '/many', { headers: { range: '0-4999' } });
  t.is(ranged.body.length, 1000);
});

test('planned counts are the planner’s, estimated ones exact while there are few', async (t) => {
  const planned = await p.rest('GET', '/many?limit=1', { headers: { prefer: 'count=planned' } });
  t.is(planned.headers.get('content-range'), '0-0/1200');
  const estimated = await p.rest('GET', '/numbers?n=lt.5&limit=1', { headers: { prefer: 'count=estimated' } });
  t.is(estimated.headers.get('content-range'), '0-0/4');
});

test('HEAD answers the headers of GET and no body', async (t) => {
  const { status, text, headers } = await p.rest('HEAD', '/numbers', { headers: { prefer: 'count=exact' } });
  t.deepEqual([status, text, headers.get('content-range')], [200, '', '0-9/10']);
});

test('one object is one row, or 406', async (t) => {
  const one = await p.rest('GET', '/numbers?n=eq.1&select=n', { headers: { accept: single } });
  t.deepEqual([one.status, one.body], [200, { n: 1 }]);
  t.is(one.headers.get('content-type'), 'application/vnd.pgrst.object+json; charset=utf-8');
  for (const [filter, rows] of [
    ['n=eq.-1', 0],
    ['n=lt.3', 2],
  ]) {
    const { status, body } = await p.rest('GET', `/numbers?${filter}`, { headers: { accept: single } });
    t.deepEqual([status, body.code, body.details], [406, 'PGRST116', `The result contains ${rows} rows`]);
  }
});

test('nulls=stripped leaves out what is null', async (t) => {
  const array = await p.rest('GET', '/numbers?n=lt.3&order=n', {
    headers: { accept: 'application/vnd.pgrst.array+json;nulls=stripped' },
  });
  t.deepEqual(array.body, [
    { n: 1, half: 0.5 },
    { n: 2, half: 1, note: 'even' },
  ]);
  const one = await p.rest('GET', '/numbers?n=eq.1', { headers: { accept: `${single};nulls=stripped` } });
  t.deepEqual(one.body, { n: 1, half: 0.5 });
});

test('CSV has a line of names', async (t) => {
  const { text, headers } = await p.rest('GET', '/numbers?n=lt.3&order=n&select=n,note', {
    headers: { accept: 'text/csv' },
  });
  t.is(text, 'n,note\n1,\n2,even');
  t.is(headers.get('content-type'), 'text/csv; charset=utf-8');
});

for (const [accept, status] of [
  ['text/html', 406],
  ['application/vnd.pgrst.plan+json', 406],
  ['application/json;q=0', 406],
  ['text/html, */*;q=0.1', 200],
  ['text/html, application/json;q=0.9', 200],
  ['nonsense', 406],
] as const) {
  test(`Accept: ${accept} is ${status}`, async (t) => {
    const answer = await p.rest('GET', '/numbers?limit=1', { headers: { accept } });
    t.is(answer.status, status);
    if (status === 406) t.is(answer.body.code, 'PGRST107');
  });
}

test('what Prefer does not know is ignored, but for handling=strict', async (t) => {
  const lenient = await p.rest('GET', '/numbers', { headers: { prefer: 'foo=bar, count=wrong, handling=lenient' } });
  t.is(lenient.status, 200);
  const strict = await p.rest('GET', '/numbers', { headers: { prefer: 'handling=strict, foo=bar, count=wrong' } });
  t.deepEqual([strict.status, strict.body.code], [400, 'PGRST122']);
  t.is(strict.body.details, 'Invalid preferences: foo=bar, count=wrong');
  const twice = await p.rest('GET', '/numbers?limit=1', { headers: { prefer: 'count=exact, count=planned' } });
  t.is(twice.headers.get('preference-applied'), 'count=exact');
});

test('Prefer: timezone turns the times of the answer, and of that answer alone', async (t) => {
  await p.sql(`create table times (at timestamptz); insert into times values ('2026-01-01T00:00:00Z')`);
  const there = await p.rest('GET', '/times', { headers: { prefer: 'timezone=America/Los_Angeles' } });
  t.deepEqual(there.body, [{ at: '2025-12-31T16:00:00-08:00' }]);
  t.is(there.headers.get('preference-applied'), 'timezone=America/Los_Angeles');
  const here = await p.rest('GET', '/times', { headers: { prefer: 'timezone=Not/There' } });
  t.deepEqual(here.body, [{ at: '2026-01-01T00:00:00+00:00' }]);
});

test('names of every kind are reached', async (t) => {
  const path = `/${encodeURIComponent('Odd "name" é')}`;
  t.deepEqual((await p.rest('GET', `${path}?select=select`)).body, [{ select: 'x' }]);
  t.is((await p.rest('PATCH', `${path}?id=eq.1`, { body: { select: 'y' } })).status, 204);
  t.is((await p.data('GET', `${path}/1`)).body.select, 'y');
});

test('a table of the system, or of the platform, is not there', async (t) => {
  for (const name of ['pg_class', 'pg_catalog.pg_class', 'plinth.migrations', 'outbox', 'constructor', '__proto__']) {
    t.is((await p.rest('GET', `/${name}`)).status, 404, name);
  }
});

test('the root describes what the caller may use', async (t) => {
  const { status, body } = await p.rest('GET', '/');
  t.is(status, 200);
  t.is(body.openapi, '3.1.0');
  t.deepEqual(body.components.schemas.numbers.required, ['n']);
  t.is(body.components.schemas.numbers.description, 'Ten of them');
  t.truthy(body.paths['/numbers'].patch);
  t.truthy(body.paths['/rpc/twice'].post);
  const anon = await p.anon('GET', '/');
  t.is(anon.status, 200);
  t.deepEqual(anon.body.paths, {});
});

test('a browser of any origin may ask', async (t) => {
  const { headers } = await p.rest('GET', '/numbers?limit=1', { headers: { origin: 'https://app.example' } });
  t.is(headers.get('access-control-allow-origin'), '*');
  t.regex(String(headers.get('access-control-expose-headers')), /Content-Range/);
});

test('a bare count in select is the number of rows, and a column of that name is the column', async (t) => {
  t.deepEqual((await p.rest('GET', '/numbers?select=count')).body, [{ count: 10 }]);
  t.deepEqual((await p.rest('GET', '/numbers?select=rows:count::text')).body, [{ rows: '10' }]);
  await p.sql(`create table directors (id int primary key, name text);
    create table pictures (id int primary key, director_id int references directors);
    create table counted (count int);
    insert into directors values (1, 'Ada'), (2, 'Bob');
    insert into pictures values (1, 1), (2, 1);
    insert into counted values (7)`);
  const embedded = await p.rest('GET', '/directors?select=name,pictures(count)&order=id');
  t.deepEqual(embedded.body, [
    { name: 'Ada', pictures: [{ count: 2 }] },
    { name: 'Bob', pictures: [{ count: 0 }] },
  ]);
  t.deepEqual((await p.rest('GET', '/counted?select=count')).body, [{ count: 7 }]);
});

test('a schema that is not exposed is 406 PGRST106, and nothing of public is read or written in its place', async (t) => {
  const hint = 'Only the following schemas are exposed: public';
  const read = await p.alias('GET', '/numbers', { headers: { 'accept-profile': 'private' } });
  t.deepEqual([read.status, read.body.code, read.body.hint], [406, 'PGRST106', hint]);
  const before = await p.sql('select count(*) from numbers');
  const requested = { headers: { 'content-profile': 'private' }, body: { n: 99 } };
  for (const [method, path] of [
    ['POST', '/numbers'],
    ['PATCH', '/numbers?n=eq.1'],
    ['DELETE', '/numbers?n=eq.1'],
    ['POST', '/rpc/$batch'],
  ] as const) {
    const refused = await p.alias(method, path, path.endsWith('batch') ? { ...requested, body: [] } : requested);
    t.deepEqual([refused.status, refused.body.code], [406, 'PGRST106'], `${method} ${path}`);
  }
  t.deepEqual(await p.sql('select count(*) from numbers'), before);
  const inner = [{ method: 'GET', path: 'numbers', headers: { 'Accept-Profile': 'private' } }];
  t.is((await p.alias('POST', '/rpc/$batch', { body: inner })).status, 406);
  const named = { 'accept-profile': 'public', 'content-profile': 'private' };
  t.is((await p.alias('GET', '/numbers?limit=1', { headers: named })).status, 200);
});

test('messages of the server do not show what the database is called there', async (t) => {
  await p.sql(`create function tells() returns int language plpgsql as $$
    begin raise exception 'permission denied for database "%"', current_database() using detail = current_database(); end $$`);
  const { status, text, body } = await p.rest('POST', '/rpc/tells', { body: {} });
  t.is(status, 400);
  t.is(body.message, "permission denied for the project's database");
  t.false(text.includes(p.project.dbName));
  const console = await platform().client.call('POST', `/projects/${p.project.id}/db/query`, {
    token: p.user.token,
    body: { sql: 'select tells()' },
  });
  t.is(console.status, 400);
  t.false(console.text.includes(p.project.dbName), console.text);
});
