import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import type { Answer } from '#test/support/client.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

const big = '9007199254740995';
const wide = Array.from({ length: 1600 }, (_, n) => `c${n}`);

test.before('a project with tables', async () => {
  p = await createRestProject(
    platform(),
    `create table kinds (id int primary key, t text, b boolean, j jsonb, ts text[], r daterange, w tsvector, u uuid, at timestamptz);
     insert into kinds (id, t) values (1, 'x');
     create table exact (id bigint primary key, n numeric, note text);
     create table kept (id int primary key, note text);
     insert into kept select n, 'kept' from generate_series(1, 20) n;
     create table wide (${wide.map((name) => `${name} int${name === 'c0' ? ' primary key' : ''}`).join(', ')});
     create function same(v bigint, n numeric) returns text language sql stable as $$ select v || ' ' || n $$`,
  );
  await asAdmin(p.project.dbName, (admin) => admin.query('update plinth.limits set max_rows = null'));
});

/** Refused as the caller's fault, with a code; or answered with rows. */
const isOrderly = ({ status, body }: Answer): boolean =>
  status < 300 ? Array.isArray(body) : status >= 400 && status < 500 && typeof body?.code === 'string';

const malformed = ['', 'x', '(', '{', '"', '[,]', '}{', '\\', '%00', '%F0%9F%92%A9', '1e999', "'", 'null', '(,)', '-'];
const operators =
  `eq neq gt gte lt lte like ilike match imatch in is isdistinct fts plfts phfts wfts cs cd ov sl sr nxr nxl adj`.split(
    ' ',
  );

for (const operator of operators)
  test.serial(
    `${operator} with a malformed value, on a column of any type, is never a fault of the server`,
    async (t) => {
      for (const column of ['id', 't', 'b', 'j', 'ts', 'r', 'w', 'u', 'at', 'j->a', 'ts->>0']) {
        const queries = malformed.flatMap((value) => [`${column}=${operator}.${value}`]);
        queries.push(
          `${column}=${operator}(any).{x`,
          `${column}=not.${operator}.{`,
          `or=(${column}.${operator}.{,id.eq.1)`,
        );
        await Promise.all(
          queries.map(async (query) => {
            const answer = await p.rest('GET', `/kinds?${query.replaceAll('"', '%22').replaceAll('{', '%7B')}`);
            t.true(isOrderly(answer), `${query}: ${answer.status} ${answer.text}`);
          }),
        );
      }
    },
  );

test('a table of 1,600 columns is written and read, whole and by name', async (t) => {
  const rowOf = (id: number) => Object.fromEntries(wide.map((name, nth) => [name, nth === 0 ? id : nth]));
  const made = await p.rest('POST', '/wide', { body: [rowOf(1), rowOf(2)] });
  t.deepEqual([made.status, made.body], [201, [rowOf(1), rowOf(2)]]);
  t.deepEqual((await p.rest('GET', '/wide?c0=eq.1')).body, [rowOf(1)]);
  t.deepEqual((await p.rest('GET', `/wide?select=${wide.join(',')}&order=c0`)).body, [rowOf(1), rowOf(2)]);
  const all = wide.slice(1).map((name, nth) => `${name}=eq.${nth + 1}`);
  t.is((await p.rest('GET', `/wide?select=c0&${all.join('&')}`)).body.length, 2);
  const changed = await p.rest('PATCH', '/wide?c0=eq.2', { body: { ...rowOf(2), c1599: -1 } });
  t.is(changed.status, 204, changed.text);
  const merged = await p.rest('POST', '/wide?select=c1599', {
    body: rowOf(2),
    headers: { prefer: 'resolution=merge-duplicates,return=representation' },
  });
  t.deepEqual(merged.body, [{ c1599: 1599 }], merged.text);
  const more = await p.rest('GET', `/wide?select=${wide.map((name) => `${name},x${name}:${name}`).join(',')}`);
  t.deepEqual([more.status, more.body.code], [400, '54011']);
  const csv = await p.rest('GET', '/wide?limit=1', { headers: { accept: 'text/csv' } });
  t.is(csv.text.split('\n')[0]?.split(',').length, 1600);
  const described = await p.rest('GET', '/');
  t.is(Object.keys(described.body.components.schemas.wide.properties).length, 1600);
});

test('1,000 filters and 10,000 values fit into one request', async (t) => {
  const filters = Array.from({ length: 1000 }, (_, n) => `id=neq.${n + 3}`).join('&');
  t.deepEqual((await p.rest('GET', `/kept?select=id&order=id&${filters}`)).body, [{ id: 1 }, { id: 2 }]);
  const values = Array.from({ length: 10_000 }, (_, n) => n).join(',');
  t.is((await p.rest('GET', `/kept?select=id&id=in.(${values})`)).body.length, 20);
  t.deepEqual((await p.rest('GET', `/kept?select=id&id=not.in.(${values})`)).body, []);
  const either = Array.from({ length: 2000 }, (_, n) => `id.eq.${n + 20}`).join(',');
  t.deepEqual((await p.rest('GET', `/kept?select=id&or=(${either})`)).body, [{ id: 20 }]);
  const rows = Array.from({ length: 10_000 }, (_, n) => ({ id: n, note: 'x' }));
  t.is((await p.alias('POST', '/exact', { body: rows })).status, 201);
  const gone = await p.rest('DELETE', `/exact?id=in.(${values})`, { headers: { prefer: 'count=exact' } });
  t.deepEqual([gone.status, gone.headers.get('content-range')], [204, '*/10000']);
});

const deep = (levels: number): string => `or=${'(and'.repeat(levels - 1)}(id.eq.2)${')'.repeat(levels - 1)}`;

test('logic nests 32 deep, and what nests deeper is refused at once', async (t) => {
  t.deepEqual((await p.rest('GET', `/kept?select=id&${deep(32)}`)).body, [{ id: 2 }]);
  for (const levels of [33, 1000, 20_000])
    t.is((await p.rest('GET', `/kept?select=id&${deep(levels)}`)).body.code, 'PGRST100', `${levels}`);
});

const only = (ids: readonly number[]) => ids.map((id) => ({ id }));

for (const [query, headers, ids] of [
  ['select=id&select=note&id=eq.1', {}, [1]],
  ['select=id&id=eq.1&id=eq.2', {}, []],
  ['select=id&id=gt.3&id=lt.5', {}, [4]],
  ['select=id&order=id.desc&order=id.asc&limit=1', {}, [20]],
  ['select=id&order=id&limit=1&limit=2', {}, [1, 2]],
  ['select=id&order=id&limit=2&offset=1&offset=18', {}, [19, 20]],
  ['select=id&order=id&limit=5', { range: '0-1' }, [1, 2]],
  ['select=id&order=id&limit=1', { range: '0-4' }, [1]],
  ['select=id&order=id&or=(id.eq.1,id.eq.2)&or=(id.eq.2,id.eq.3)', {}, [2]],
  ['select=id&order=id&and=(id.gt.18)&id=lt.20', {}, [19]],
  ['select=id&id=in.(1,1,1)', {}, [1]],
] as const)
  test(`of what stands twice or speaks against itself one meaning is taken: ${query} ${headers['range'] ?? ''}`, async (t) => {
    const { body } = await p.rest('GET', `/kept?${query}`, { headers });
    t.deepEqual(body, only(ids));
  });

test('preferences that speak against each other: the first counts', async (t) => {
  const write = (prefer: string) =>
    p.alias('POST', '/exact', { body: { id: 70_001, note: prefer }, headers: { prefer } });
  const minimal = await write('return=minimal, return=representation');
  t.deepEqual([minimal.status, minimal.text], [201, '']);
  const ignored = await write('resolution=ignore-duplicates, resolution=merge-duplicates, return=representation');
  t.deepEqual(ignored.body, []);
  t.is((await p.rest('GET', '/exact?id=eq.70001')).body[0].note, 'return=minimal, return=representation');
});

const row = (id: string): string => `{"id":${id},"n":0.1000000000000000055511151231257827}`;

test('numbers keep their digits on every way in and out', async (t) => {
  const expected = `"id":${big},"n":0.1000000000000000055511151231257827`;
  const made = await p.rest('POST', '/exact?select=id,n', { raw: `[${row(big)},${row('9007199254740997')}]` });
  t.is(made.text.replaceAll(/\s/g, ''), `[${row(big)},${row('9007199254740997')}]`);
  const merged = await p.rest('POST', '/exact?select=id,n', {
    raw: row(big),
    headers: { prefer: 'resolution=merge-duplicates,return=representation' },
  });
  t.true(merged.text.includes(expected), merged.text);
  const put = await p.rest('PUT', `/exact?id=eq.${big}&select=id,n`, {
    raw: row(big),
    headers: { prefer: 'return=representation' },
  });
  t.true(put.text.includes(expected), put.text);
  t.true((await p.rest('GET', `/exact?select=id,n&id=in.(${big})`)).text.includes(expected));
  t.true((await p.data('GET', `/exact/${big}?select=id,n`)).text.includes(expected));
  t.is((await p.rest('GET', '/exact?id=eq.9007199254740996')).text, '[]');
  const body = `{"v":${big},"n":12345678901234567890.123456789}`;
  t.is((await p.rest('POST', '/rpc/same', { raw: body })).body, `${big} 12345678901234567890.123456789`);
  t.is((await p.rest('GET', `/rpc/same?v=${big}&n=1.10`)).body, `${big} 1.10`);
});

for (const [raw, status, code] of [
  ['id,note', 201, undefined],
  ['id,note\r\n', 201, undefined],
  ['\uFEFFid,note\n71001,x', 201, undefined],
  ['id,note\n71002,"a\r\nb"\r\n', 201, undefined],
  ['id,nope\n1,x', 400, 'PGRST204'],
  ['id,note\n1,x,y', 400, 'PGRST102'],
  ['id;note\n1;x', 400, 'PGRST204'],
  ['id,note\nx,y', 400, '22P02'],
  ['id,note\n71003,a\u0000b', 400, undefined],
  [',\n,', 400, undefined],
  ['id\n"1', 400, 'PGRST102'],
  [`${'id,'.repeat(5000)}note\n`, 400, 'PGRST102'],
  [`"${'x'.repeat(5000)}"\n1`, 400, 'PGRST204'],
] as const)
  test(`a CSV of ${JSON.stringify(raw.slice(0, 30))} is ${status}`, async (t) => {
    const answer = await p.rest('POST', '/exact', { raw, headers: { 'content-type': 'text/csv' } });
    t.is(answer.status, status, answer.text);
    if (code !== undefined) t.is(answer.body.code, code);
  });

test('nothing that is no filter lets PATCH or DELETE at all rows', async (t) => {
  const queries = [
    '',
    '?',
    '?&&',
    '?select=id',
    '?order=id',
    '?limit=5',
    '?offset=0',
    '?columns=note',
    '?on_conflict=id',
  ];
  queries.push('?and=()', '?or=()', '?not.or=()', '?=', '?=eq.1', '?kept.id=eq.1', '?select=', '?id', '?id=');
  for (const ask of [p.rest, p.alias, p.data])
    for (const query of queries) {
      const changed = await ask('PATCH', `/kept${query}`, { body: { note: 'lost' } });
      t.true(changed.status >= 400 && changed.status < 500, `PATCH ${query}: ${changed.status} ${changed.text}`);
      const gone = await ask('DELETE', `/kept${query}`);
      t.true(gone.status >= 400 && gone.status < 500, `DELETE ${query}: ${gone.status} ${gone.text}`);
    }
  t.deepEqual(await p.sql(`select count(*)::int as n from kept where note = 'kept'`), [{ n: 20 }]);
});
