import { once } from 'node:events';
import test from 'ava';
import { createSqlBuilder, pieceBytes, piecesSql } from '#domain/data-api/sql/sql.ts';
import { usePlatform } from '#test/support/platform.ts';
import { chunksOf, connectTo } from '#test/support/raw-http.ts';
import { createRestProject } from './rest-project.ts';
import { useLibrary } from './support/library-db.ts';

const library = useLibrary(test);
const platform = usePlatform(test);

const kib = 1024;

type TextColumns = Readonly<Record<string, string | null>>;

/** The rows that are answered for an expression of type text. */
const rowsOf = (text: string): Promise<TextColumns[]> => {
  const builder = createSqlBuilder();
  return library().run(builder.finish(piecesSql(`select (${text})::text as "body", 7 as "n"`, ['n'], builder)));
};

const sizesOf = (rows: readonly TextColumns[]): number[] => rows.map(({ body }) => Buffer.byteLength(body ?? ''));

const joined = (rows: readonly TextColumns[]): string => rows.map(({ body }) => body ?? '').join('');

test('a text of 12 MB comes in rows of at most 96 KB, each of which has the other columns', async (t) => {
  const rows = await rowsOf(`repeat('x', 12 * 1024 * 1024)`);
  t.is(rows.length, 128);
  t.true(sizesOf(rows).every((size) => size === pieceBytes));
  t.true(rows.every(({ n }) => n === '7'));
  t.true(joined(rows) === 'x'.repeat(12 * kib * kib));
});

test('a text that fits into one piece, none and null are one row as they are', async (t) => {
  for (const text of ['', '[]', 'ü'.repeat(pieceBytes / 2)]) {
    const rows = await rowsOf(`'${text}'`);
    t.deepEqual(
      rows.map((row) => ({ ...row })),
      [{ body: text, n: '7' }],
    );
  }
  t.deepEqual(
    (await rowsOf('null')).map((row) => ({ ...row })),
    [{ body: null, n: '7' }],
  );
  t.is((await rowsOf(`repeat('x', ${pieceBytes + 1})`)).length, 2);
});

test('no character is split, wherever a piece ends', async (t) => {
  for (const character of ['é', '€', '😀', 'e\u0301', '"\\n']) {
    for (const before of [0, 1, 2, 3]) {
      const text = 'x'.repeat(before) + character.repeat(100_000);
      const rows = await rowsOf(`repeat('x', ${before}) || repeat('${character}', 100000)`);
      const sizes = sizesOf(rows);
      t.true(joined(rows) === text, `${character} ${before}`);
      t.true(Math.max(...sizes) <= pieceBytes + 3 && Math.min(...sizes.slice(0, -1)) >= pieceBytes - 3);
    }
  }
});

const schema = `create table big (id int primary key, rows text, body text, n int, total int, i int, step int, "text" text);
  insert into big select i, null, repeat('😀é', 1000), i, null, -i, 1, repeat(E'"\\n', 50)
    from generate_series(1, 600) i;
  alter table big enable row level security;
  create policy everybody on big for select using (true);
  grant select on big to anon;
  create function bigs() returns setof big language sql stable as $$ select * from big order by id $$;
  create function own(n int) returns text language plpgsql as $$ begin
    perform set_config('response.status', '203', true);
    return repeat('€', n);
  end $$;`;

/** The table as PostgREST's clients expect it, made by the rules of JSON alone. */
const expected = (): string => {
  const body = '😀é'.repeat(1000);
  const text = JSON.stringify('"\n'.repeat(50));
  const row = (id: number): string =>
    `{"id":${id},"rows":null,"body":"${body}","n":${id},"total":null,"i":${-id},"step":1,"text":${text}}`;
  return `[${Array.from({ length: 600 }, (_, index) => row(index + 1)).join(',')}]`;
};

test('a long list over HTTP is what it was, in all forms and places', async (t) => {
  const { rest, alias, anon } = await createRestProject(platform(), schema);
  const whole = expected();
  for (const ask of [rest, alias, anon]) {
    const { status, text, headers } = await ask('GET', '/big?order=id', { headers: { Prefer: 'count=exact' } });
    t.true(text === whole);
    t.deepEqual([status, headers.get('content-range')], [200, '0-599/600']);
    t.is(headers.get('content-type'), 'application/json; charset=utf-8');
  }
  const zoned = await rest('GET', '/big?order=id', { headers: { Prefer: 'timezone=Europe/Paris' } });
  t.true(zoned.text === whole);
  const head = await rest('HEAD', '/big?order=id');
  t.deepEqual([head.status, head.headers.get('content-length')], [200, String(Buffer.byteLength(whole))]);
  const stripped = await rest('GET', '/big?order=id', {
    headers: { Accept: 'application/vnd.pgrst.array+json;nulls=stripped' },
  });
  t.true(stripped.text === whole.replaceAll(',"rows":null', '').replaceAll(',"total":null', ''));
});

test('a long list is a part of a batch, also of one that is kept for its key', async (t) => {
  const { rest } = await createRestProject(platform(), schema);
  const whole = expected();
  const batch = [
    { method: 'GET', path: 'big?order=id' },
    { method: 'GET', path: 'big?id=eq.0' },
  ];
  const answered = await rest('POST', '/rpc/$batch', { body: batch });
  t.is(answered.status, 200);
  t.true(answered.text.includes(`"body":${whole}},{"status":200,`));
  t.true(answered.text.endsWith('"body":[]}]'));
  const short = [{ method: 'GET', path: 'big?order=id&limit=100' }];
  const requested = { body: short, headers: { 'Idempotency-Key': 'once' } };
  const [first, again] = [await rest('POST', '/rpc/$batch', requested), await rest('POST', '/rpc/$batch', requested)];
  t.is(first.status, 200);
  t.true(first.text.length > 256 * kib && first.text === again.text);
  t.is(again.headers.get('idempotent-replayed'), 'true');
});

test('long answers of functions, one long row and long CSV are what they were', async (t) => {
  const { rest, sql } = await createRestProject(platform(), schema);
  const whole = expected();
  const called = await rest('POST', '/rpc/bigs', { body: {}, headers: { Prefer: 'count=exact' } });
  t.true(called.text === whole);
  t.is(called.headers.get('content-range'), '0-599/600');
  const own = await rest('POST', '/rpc/own', { body: { n: 200_000 } });
  t.is(own.status, 203);
  t.true(own.text === `"${'€'.repeat(200_000)}"`);
  await sql(`create table one (id int primary key, a text); insert into one values (1, repeat('€"', 100000))`);
  const object = await rest('GET', '/one?id=eq.1', { headers: { Accept: 'application/vnd.pgrst.object+json' } });
  t.true(object.text === JSON.stringify({ id: 1, a: '€"'.repeat(100_000) }));
  const csv = await rest('GET', '/one', { headers: { Accept: 'text/csv' } });
  t.true(csv.text === `id,a\n1,"${'€""'.repeat(100_000)}"`);
  const batch = await rest('POST', '/rpc/$batch', {
    body: [{ method: 'GET', path: 'one', headers: { Accept: 'text/csv' } }],
  });
  t.true(batch.body[0].body === csv.text);
});

interface Sent {
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly headers?: readonly string[];
  readonly body?: string;
}

/** The chunks in which an answer comes. */
const chunksFrom = async ({ key, method, path, headers = [], body = '' }: Sent): Promise<Buffer[]> => {
  const socket = await connectTo(platform().base);
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  const lines = ['Host: x', 'Connection: close', `apikey: ${key}`, length, ...headers, '', body];
  const raw: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => raw.push(chunk));
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}`);
  await once(socket, 'close');
  return chunksOf(Buffer.concat(raw));
};

/** No chunk is much longer than a piece, and there are as many as the text needs. */
const areInPieces = (chunks: readonly Buffer[]): boolean =>
  chunks.length > 10 && chunks.every(({ length }) => length <= pieceBytes + kib);

test('the pieces of a long answer are sent as they came, and never as one text', async (t) => {
  const { project, sql } = await createRestProject(platform(), schema);
  await sql(`create function long(n int) returns text language sql stable as $$ select repeat('x', n) $$`);
  for (const path of ['/big?order=id', '/rpc/bigs', '/rpc/long?n=2000000']) {
    const chunks = await chunksFrom({ key: project.key, method: 'GET', path: `/rest/v1${path}` });
    t.true(chunks.length > 10, `${path}: ${chunks.length}`);
    for (const { length } of chunks.slice(0, -1)) t.true(Math.abs(length - pieceBytes) <= 3, `${path}: ${length}`);
    if (path !== '/rpc/long?n=2000000') t.true(Buffer.concat(chunks).toString() === expected());
  }
});

const writeHeaders = ['Content-Type: application/json', 'Prefer: return=representation, resolution=merge-duplicates'];

test('what writes answer comes and goes in pieces, and is what reading answers', async (t) => {
  const { project, sql } = await createRestProject(platform(), schema);
  await sql(`create function fill() returns trigger language plpgsql as $$ begin
      new.body := repeat('😀é', 1000); new.n := new.id; new.i := -new.id; new.step := 1; new."text" := repeat(E'"\\n', 50);
      return new; end $$;
    create trigger fill before insert or update on big for each row execute function fill()`);
  const rows = JSON.stringify(Array.from({ length: 600 }, (_, index) => ({ id: index + 1 })));
  const writes = [
    { method: 'PATCH', path: '/big?id=gt.0', body: '{"total":null}' },
    { method: 'POST', path: '/big', body: rows },
    { method: 'DELETE', path: '/big?id=gt.0' },
    { method: 'POST', path: '/big', body: rows },
  ];
  for (const { path, ...write } of writes) {
    const sent = { ...write, key: project.key, path: `/rest/v1${path}`, headers: writeHeaders };
    const chunks = await chunksFrom(sent);
    t.true(areInPieces(chunks), `${write.method}: ${chunks.map(({ length }) => length).join(' ')}`);
    t.true(Buffer.concat(chunks).toString() === expected(), write.method);
  }
});

test('one long row that is put, and lines of CSV that are changed, are what they were', async (t) => {
  const { rest, sql } = await createRestProject(platform(), schema);
  await sql('create table one (id int primary key, a text)');
  const a = '€"'.repeat(100_000);
  const headers = { Prefer: 'return=representation' };
  const made = await rest('PUT', '/one?id=eq.1', { headers, body: { id: 1, a } });
  t.is(made.status, 201);
  t.true(made.text === JSON.stringify([{ id: 1, a }]));
  const csv = await rest('PATCH', '/one?id=eq.1', { headers: { ...headers, Accept: 'text/csv' }, body: { id: 1 } });
  t.true(csv.text === `id,a\n1,"${'€""'.repeat(100_000)}"`);
  const none = await rest('PATCH', '/one?id=eq.2', { headers, body: { id: 2 } });
  t.deepEqual([none.status, none.text], [200, '[]']);
});

const graphqlPieces = async (key: string, query: string): Promise<{ chunks: Buffer[]; text: string }> => {
  const chunks = await chunksFrom({
    key,
    method: 'POST',
    path: '/api/graphql',
    headers: ['Content-Type: application/json'],
    body: JSON.stringify({ query }),
  });
  return { chunks, text: Buffer.concat(chunks).toString() };
};

test('long answers of GraphQL come and go in pieces, whatever stands beside them', async (t) => {
  const { project } = await createRestProject(platform(), schema);
  const body = JSON.stringify('😀é'.repeat(1000));
  const rowsOf = (field: string): string =>
    `[${Array.from({ length: 300 }, (_, index) => `{"${field}":${index + 1},"body":${body}}`).join(',')}]`;
  const list = 'big(order_by: {id: asc}, limit: 300)';
  const requested = await graphqlPieces(
    project.key,
    `{ a: ${list} { id body } none: big_by_pk(id: 0) { id } __typename b: ${list} { n body } one: big_by_pk(id: 7) { i } }`,
  );
  t.true(areInPieces(requested.chunks));
  const others = '"none":null,"__typename":"query_root"';
  // PostgreSQL writes spaces between the rows.
  const compact = JSON.stringify(JSON.parse(requested.text));
  t.true(compact === `{"data":{"a":${rowsOf('id')},${others},"b":${rowsOf('n')},"one":{"i":-7}}}`);
});

test('long answers of mutations come and go in pieces, with one field and with several', async (t) => {
  const { project } = await createRestProject(platform(), schema);
  const body = '😀é'.repeat(1000);
  const updateBig = 'update_big(where: {id: {_lte: 300}}, _inc: {n: 1})';
  const single = await graphqlPieces(project.key, `mutation { ${updateBig} { affected_rows returning { id body } } }`);
  t.true(areInPieces(single.chunks));
  const { returning } = JSON.parse(single.text).data.update_big;
  t.is(returning.length, 300);
  t.true(returning.every((row: { body: string }) => row.body === body));
  const several = await graphqlPieces(
    project.key,
    `mutation { u: ${updateBig} { returning { n body } } d: delete_big_by_pk(id: 5) { id } none: delete_big_by_pk(id: 0) { id } __typename }`,
  );
  t.true(areInPieces(several.chunks));
  const { u, ...others } = JSON.parse(several.text).data;
  t.is(u.returning.length, 300);
  t.deepEqual(others, { d: { id: 5 }, none: null, __typename: 'mutation_root' });
});

const update = (note: string): string =>
  `${note}: update_large(where: {id: {_gt: 0}}, _set: {note: "${note}"}) { returning { body } }`;

test('fields of one mutation that answer more than 30 MB together are refused, and change nothing', async (t) => {
  const { project, sql } = await createRestProject(platform(), schema);
  await sql(`create table large (id int primary key, body text, note text);
    insert into large select i, repeat('x', 1000000) from generate_series(1, 16) i`);
  const ask = (query: string) => platform().client.call('POST', '/api/graphql', { key: project.key, body: { query } });
  const refused = await ask(`mutation { ${update('a')} ${update('b')} }`);
  t.deepEqual([refused.body.data, refused.body.errors[0].extensions.code], [null, '54000']);
  t.deepEqual(await sql('select count(note)::int as n from large'), [{ n: 0 }]);
  t.is((await ask(`mutation { ${update('a')} }`)).body.data.a.returning.length, 16);
});
