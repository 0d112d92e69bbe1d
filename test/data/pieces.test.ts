import { once } from 'node:events';
import test from 'ava';
import { createSqlBuilder } from '#domain/data/sql/builder.ts';
import { pieceBytes, piecesSql } from '#domain/data/sql/pieces.ts';
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
  const asked = { body: short, headers: { 'Idempotency-Key': 'once' } };
  const [first, again] = [await rest('POST', '/rpc/$batch', asked), await rest('POST', '/rpc/$batch', asked)];
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

const chunksFrom = async (key: string, path: string): Promise<Buffer[]> => {
  const socket = await connectTo(platform().base);
  const lines = ['Host: x', 'Connection: close', `apikey: ${key}`, '', ''];
  const raw: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => raw.push(chunk));
  socket.write(`GET /rest/v1${path} HTTP/1.1\r\n${lines.join('\r\n')}`);
  await once(socket, 'close');
  return chunksOf(Buffer.concat(raw));
};

test('the pieces of a long answer are sent as they came, and never as one text', async (t) => {
  const { project, sql } = await createRestProject(platform(), schema);
  await sql(`create function long(n int) returns text language sql stable as $$ select repeat('x', n) $$`);
  for (const path of ['/big?order=id', '/rpc/bigs', '/rpc/long?n=2000000']) {
    const chunks = await chunksFrom(project.key, path);
    t.true(chunks.length > 10, `${path}: ${chunks.length}`);
    for (const { length } of chunks.slice(0, -1)) t.true(Math.abs(length - pieceBytes) <= 3, `${path}: ${length}`);
    if (path !== '/rpc/long?n=2000000') t.true(Buffer.concat(chunks).toString() === expected());
  }
});
