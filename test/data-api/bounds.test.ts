import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

// One after the other: a project has four connections for its requests, and answers of 30 MB hold theirs for seconds.
const platform = usePlatform(test);

let p: RestProject;

const limit = 31_457_280;

test.before('a project with tables', async () => {
  p = await createRestProject(
    platform(),
    `create table parents (id int primary key, name text);
     create table children (id int primary key, parent_id int references parents, body text, extra jsonb);
     insert into parents values (1, 'p');
     insert into children select i, 1, null, '{"a": {"a": 1}}' from generate_series(1, 20) i;
     create table large (id int primary key, body text, note text);
     create table written (what text);
     create function writes_large(n int) returns text language plpgsql volatile as $$
       begin insert into written values ('large ' || n); return repeat('x', n); end $$;
     create function notes(what text) returns int language plpgsql volatile as $$
       begin insert into written values (what); return 1; end $$;
     create function lists(what text) returns setof int language plpgsql volatile as $$
       begin insert into written values (what); return query select 1; end $$;
     create function says_nonsense() returns int language plpgsql volatile as $$
       begin insert into written values ('nonsense'); perform set_config('response.headers', '{}', true); return 1; end $$;
     create function counts() returns int language sql stable as 'select 1';
     create function says(headers text) returns int language plpgsql stable as $$
       begin perform set_config('response.headers', headers, true); return 1; end $$;
     create function ends() returns void language plpgsql volatile as $$ begin perform pg_sleep(30); end $$`,
  );
});

const count = async (what: string): Promise<unknown> =>
  (await p.sql(`select count(*)::int as n from ${what}`))[0]?.['n'];

test.serial('a change whose answer is too large to be fetched is refused, and not made', async (t) => {
  await p.sql(
    `insert into large select i, repeat('x', 1000000) from generate_series(1, 32) i;
     insert into large select 100 + i, repeat('x', 1000000) from generate_series(1, 30) i`,
  );
  const headers = { prefer: 'return=representation' };
  const changed = await p.rest('PATCH', '/large?id=lt.100', { headers, body: { note: 'x' } });
  t.deepEqual([changed.status, changed.body.code], [400, '54000']);
  const gone = await p.rest('DELETE', '/large?id=lt.100', { headers });
  t.deepEqual([gone.status, gone.body.code], [400, '54000']);
  t.regex(gone.body.hint, /return=minimal/);
  t.is(await count('large where id < 100 and note is null'), 32);
  const fits = await p.rest('DELETE', '/large?id=gt.100', { headers });
  t.deepEqual([fits.status, fits.body.length], [200, 30]);
  t.is((await p.rest('DELETE', '/large?id=lt.100')).status, 204);
  t.is(await count('large where id < 100'), 0);
});

test.serial('so is what a function does that answers too much', async (t) => {
  const refused = await p.rest('POST', '/rpc/writes_large', { body: { n: limit } });
  t.deepEqual([refused.status, refused.body.code], [400, '54000']);
  t.is(await count(`written where what = 'large ${limit}'`), 0);
  t.is((await p.rest('POST', '/rpc/writes_large', { body: { n: limit - 2 } })).status, 200);
  t.is(await count(`written where what = 'large ${limit - 2}'`), 1);
});

test.serial('and a batch whose answers are too large together', async (t) => {
  const call = { method: 'POST', path: 'rpc/writes_large', body: { n: 16_000_001 } };
  const { status, body } = await p.rest('POST', '/rpc/$batch', { body: [call, call] });
  t.is(status, 200);
  t.deepEqual(
    body.map((answer: { status: number }) => answer.status),
    [424, 400],
  );
  t.is(await count(`written where what = 'large 16000001'`), 0);
});

test.serial('a page that does not exist undoes what the function did', async (t) => {
  const answer = await p.rest('POST', '/rpc/lists?limit=1&offset=5', {
    body: { what: 'paged' },
    headers: { prefer: 'count=exact' },
  });
  t.is(answer.status, 416);
  t.is(await count(`written where what = 'paged'`), 0);
});

test.serial('so does a header that is none', async (t) => {
  const { status, body } = await p.rest('POST', '/rpc/says_nonsense');
  t.deepEqual([status, body.code], [500, 'PGRST111']);
  t.is(await count(`written where what = 'nonsense'`), 0);
});

const inner = (n: number): string => Array.from({ length: n }, (_, i) => `r${i}:parents!inner(id)`).join(',');

test.serial('at most 15 conditions on related rows are planned together', async (t) => {
  const max = await p.rest('GET', `/children?select=id,${inner(15)}`, { headers: { prefer: 'count=exact' } });
  t.is(max.body.length, 20);
  const refused = await p.rest('GET', `/children?select=id,${inner(16)}`);
  t.deepEqual([refused.status, refused.body.code], [400, '54001']);
  t.regex(refused.body.message, /15/);
  const chosen = await p.rest('DELETE', `/children?select=id,${inner(8)}&or=(${'r0.not.is.null,'.repeat(16)}id.eq.-1)`);
  t.deepEqual([chosen.status, chosen.body.code], [400, '54001']);
});

test.serial('conditions within related rows count, too, and those of subqueries together', async (t) => {
  const chain = 'children!inner(id,parents!inner(id,children!inner(id)))';
  const chains = (n: number): string => Array.from({ length: n }, (_, i) => `c${i}:${chain}`).join(',');
  t.is((await p.rest('GET', `/parents?select=id,${chains(1)}&limit=1`)).status, 200);
  t.is((await p.rest('GET', `/parents?select=id,${chains(6)}`)).body.code, '54001');
  const subqueries = Array.from({ length: 8 }, (_, i) => `s${i}:children(id,${inner(11)})`).join(',');
  t.is((await p.rest('GET', `/parents?select=${subqueries}&limit=1`)).status, 200);
  const more = Array.from({ length: 7 }, (_, i) => `s${i}:children(id,parents!inner(id,${chains(4)}))`).join(',');
  t.is((await p.rest('GET', `/parents?select=id,${more}&limit=1`)).body.code, '54001');
});

const graphql = (conditions: number) => {
  const where = `{_and: [${'{parent: {id: {_eq: 1}}},'.repeat(conditions)}]}`;
  const body = { query: `{ children(where: ${where}, limit: 1) { id } }` };
  return platform().client.call('POST', '/api/graphql', { key: p.project.key, body });
};

test.serial('GraphQL has the same bound', async (t) => {
  t.is((await graphql(15)).body.errors, undefined);
  t.is((await graphql(16)).body.errors[0].extensions.code, '54001');
});

const path = (steps: number): string => `/children?select=x:extra${'->a'.repeat(steps)}&id=eq.1`;

test.serial('a path into JSON has at most 64 steps', async (t) => {
  t.deepEqual((await p.rest('GET', path(2))).body, [{ x: 1 }]);
  t.deepEqual((await p.rest('GET', path(64))).body, [{ x: null }]);
  for (const steps of [65, 1500]) {
    const { status, body } = await p.rest('GET', path(steps));
    t.deepEqual([status, body.code], [400, 'PGRST100']);
  }
  const filter = await p.rest('GET', `/children?extra${'->a'.repeat(65)}=eq.1`);
  t.deepEqual([filter.status, filter.body.code], [400, 'PGRST100']);
});

test.serial('PATCH and DELETE refuse a page, which would choose no rows', async (t) => {
  for (const query of ['id=gt.0&limit=1&order=id', 'id=gt.0&offset=1', 'id=gt.0&limit=0']) {
    const gone = await p.rest('DELETE', `/children?${query}`);
    t.deepEqual([gone.status, gone.body.code], [400, 'PGRST114'], query);
    const changed = await p.rest('PATCH', `/children?${query}`, { body: { body: 'x' } });
    t.deepEqual([changed.status, changed.body.code], [400, 'PGRST114'], query);
  }
  t.is((await p.data('DELETE', '/children/1?limit=1')).body.code, 'PGRST114');
  t.is(await count('children where body is null'), 20);
  const related = await p.rest('PATCH', '/parents?id=eq.1&select=id,children(id)&children.limit=1', {
    body: { name: 'p' },
    headers: { prefer: 'return=representation' },
  });
  t.is(related.body[0].children.length, 1);
});

test.serial('GET calls no function that may write, in a batch as little as alone', async (t) => {
  t.is((await p.rest('GET', '/rpc/notes?what=alone')).status, 405);
  for (const headers of [{}, { prefer: 'timezone=UTC' }]) {
    const { body } = await p.rest('POST', '/rpc/$batch', {
      body: [
        { method: 'GET', path: 'rpc/counts' },
        { method: 'GET', path: 'rpc/notes?what=batch', headers },
      ],
    });
    t.deepEqual(
      body.map((answer: { status: number }) => answer.status),
      [424, 405],
    );
  }
  t.is(await count(`written where what in ('alone', 'batch')`), 0);
});

test.serial('a function sets headers of its own answer, and none that are about the origin', async (t) => {
  const said = [
    ['X-Own', 'yes'],
    ['Location', '/there'],
    ['ETag', '"1"'],
    ['Clear-Site-Data', '"*"'],
    ['WWW-Authenticate', 'Basic realm="x"'],
    ['Content-Encoding', 'gzip'],
    ['Content-Type', 'text/html'],
    ['Strict-Transport-Security', 'max-age=0'],
    ['Set-Cookie', 'a=b'],
    ['Content-Security-Policy', 'default-src *'],
    ['Access-Control-Allow-Credentials', 'true'],
    ['Access-Control-Allow-Origin', 'https://evil.example'],
    ['Transfer-Encoding', 'gzip'],
    ['Service-Worker-Allowed', '/'],
    ['Refresh', '0; url=https://evil.example'],
    ['X-Accel-Redirect', '/secret'],
    ['X-Request-Id', 'forged'],
    ['X-Frame-Options', 'ALLOWALL'],
    ['Vary', 'X-None'],
  ];
  const body = { headers: JSON.stringify(said.map(([name = '', value]) => ({ [name]: value }))) };
  const own = await p.rest('POST', '/rpc/says', { body });
  const plain = await p.rest('POST', '/rpc/says', { body: { headers: '' } });
  t.deepEqual([own.status, plain.status, plain.text], [200, 200, '1']);
  const changing = new Set(['x-request-id', 'date', 'content-length']);
  const added = [...own.headers.keys()].filter((name) => !plain.headers.has(name));
  t.deepEqual(added.toSorted(), ['etag', 'location', 'x-own']);
  for (const [name, value] of plain.headers)
    if (!changing.has(name) && !/ratelimit/.test(name)) t.is(own.headers.get(name), value, name);
  t.not(own.headers.get('x-request-id'), 'forged');
});

for (const [headers, expected] of [
  [[{ 'Cache-Control': 'public, max-age=60' }], 'private, max-age=60'],
  [
    [{ 'cache-control': 'max-age=1' }, { 'Cache-Control': 'S-MaxAge=9, Must-Revalidate,no-cache' }],
    'private, no-cache',
  ],
  [[{ Expires: 'Thu, 01 Jan 2099 00:00:00 GMT' }], 'private'],
] as const) {
  test(`what a function lets be kept is the caller's own: ${expected}`, async (t) => {
    const answer = await p.rest('POST', '/rpc/says', { body: { headers: JSON.stringify(headers) } });
    t.is(answer.headers.get('cache-control'), expected);
  });
}

test.serial('headers that are too many are PGRST111', async (t) => {
  const headers = JSON.stringify([{ 'X-Own': 'x'.repeat(20_000) }]);
  const { status, body } = await p.rest('POST', '/rpc/says', { body: { headers } });
  t.deepEqual([status, body.code], [500, 'PGRST111']);
});

const sign = async (body: unknown) => {
  const user = await platform().client.signUp();
  const { id } = await platform().client.createProject(user);
  return platform().client.call('POST', `/projects/${id}/users/tokens`, { token: user.token, body });
};

for (const body of [
  { sub: 'x', claims: { a: '\ud800' } },
  { sub: 'x', claims: { 'b\udc00': 1 } },
  { sub: 'x', claims: { c: [{ d: 'x\0' }] } },
  { sub: 'x', claims: { 'e\0': 1 } },
  { sub: 'x\0' },
  { sub: '\udfff' },
]) {
  test(`what no database can hold is not signed: ${JSON.stringify(body)}`, async (t) => {
    const { status, body: said } = await sign(body);
    t.deepEqual([status, said.code], [400, 'validation_failed']);
  });
}

test.serial('claims that only look like it are signed', async (t) => {
  t.is((await sign({ sub: '\\u0000', claims: { a: String.raw`\ud800 ☃ 😀` } })).status, 201);
});

test.serial('a session that is ended from outside is told as that, and the project answers on', async (t) => {
  await asAdmin(p.project.dbName, async (admin) => {
    for (const ask of [
      () => p.rest('POST', '/rpc/ends'),
      () => p.rest('POST', '/rpc/$batch', { body: [{ method: 'POST', path: 'rpc/ends' }] }),
    ]) {
      const answering = ask();
      const sql = `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and query like '%"ends"%' and state = 'active' and pid <> pg_backend_pid()`;
      await until(async () => (await admin.query(sql)).rows.length === 1);
      const { status, body } = await answering;
      const said = Array.isArray(body) ? body[0].body : body;
      t.deepEqual([Array.isArray(body) ? body[0].status : status, said.code], [503, '57P01']);
      t.regex(said.message, /too much memory or time/);
      t.truthy(said.hint);
    }
  });
  t.is((await p.rest('GET', '/rpc/counts')).text, '1');
});
