import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

const schema = `
  create table notes (id int primary key, owner uuid, text text);
  alter table notes enable row level security;
  create policy shown on notes for select to anon using (owner is null);
  grant select on notes to anon;
  create table big (id int primary key, filling text not null default repeat('x', 300));
`;
/** More than fits into any buffer between the server and its reader. */
const manyRows = 'insert into big select generate_series(1, 100000)';

interface Ask {
  readonly token?: string;
  readonly accept?: string;
  readonly as?: string;
  readonly signal?: AbortSignal;
  readonly method?: string;
}

const scene = async (rows = '') => {
  const s = await createRestProject(platform(), schema + rows, { plan: 'pro' });
  /** The answer as it comes, and not yet its body. */
  const begin = (at: string, { token = s.user.token, accept = 'text/csv', as = '', ...init }: Ask = {}) =>
    fetch(`${platform().base}/projects/${s.project.id}/db/tables/${at}`, {
      ...init,
      headers: { authorization: `Bearer ${token}`, accept, ...(as !== '' && { 'x-plinth-as': as }) },
    });
  const ask = async (at: string, options?: Ask) => {
    const response = await begin(at, options);
    const text = await response.text();
    const body: unknown = /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, body: body as never };
  };
  const readers = async (): Promise<number> => {
    const [row] = await platform().db.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = $1 and query like '%fetch_lines%'`,
      [s.project.dbName],
    );
    return row?.n ?? 0;
  };
  return { ...s, begin, ask, readers };
};

test('an export has each row once, as it was at the beginning, while others write', async (t) => {
  t.timeout(longTestMs);
  const { begin, sql } = await scene(manyRows);
  const response = await begin('big/export?select=id,filling&order=id');
  t.is(response.status, 200);
  t.regex(response.headers.get('content-type') ?? '', /^text\/csv/);
  // The server waits for its reader by now: 30 MB fit into no buffer on the way.
  await sql(`delete from big where id % 2 = 0`);
  await sql(`insert into big select generate_series(-50000, 0)`);
  await sql(`update big set id = id + 1000000 where id > 90000`);
  const [header, ...lines] = (await response.text()).trimEnd().split('\n');
  t.is(header, 'id,filling');
  t.is(lines.length, 100_000);
  t.true(lines.every((line, index) => line === `${index + 1},${'x'.repeat(300)}`));
});

test('a client that leaves ends the export, whose place is free then', async (t) => {
  t.timeout(longTestMs);
  const { begin, ask, readers, project } = await scene(manyRows);
  const leaving = new AbortController();
  const held = await begin('big/export', { signal: leaving.signal });
  t.is(held.status, 200);
  t.is(await readers(), 1);
  const second = await ask('big/export');
  isError(t, second, 429, 'too_many_calls');
  const colleague = await addMember(platform(), project.orgId, 'viewer');
  t.is((await ask('big/export?limit=3', { token: colleague.token })).text.split('\n').length, 5);
  t.false(held.bodyUsed);
  leaving.abort();
  await until(async () => (await readers()) === 0);
  t.is((await ask('big/export?limit=1')).status, 200);
});

test('a project exports to three people at a time, and other projects are not concerned', async (t) => {
  t.timeout(longTestMs);
  const [{ begin, ask, project }, other] = [await scene(manyRows), await scene(manyRows)];
  const people = await Promise.all([1, 2, 3, 4].map(() => addMember(platform(), project.orgId, 'viewer')));
  const leaving = new AbortController();
  const [, , , last] = people;
  // Answers that nobody refers to any more would be given up with their bodies.
  const held = await Promise.all(
    people.slice(0, 3).map(({ token }) => begin('big/export', { token, signal: leaving.signal })),
  );
  t.deepEqual(
    held.map(({ status }) => status),
    [200, 200, 200],
  );
  isError(t, await ask('big/export', { token: last?.token ?? '' }), 429, 'too_many_calls');
  t.is((await other.ask('big/export?limit=1')).status, 200);
  t.false(held.some(({ bodyUsed }) => bodyUsed));
  leaving.abort();
});

test('JSON and CSV hold what the table holds: NULL, empty texts, line feeds, large numbers, a cell of a megabyte', async (t) => {
  const { ask, sql } = await scene();
  await sql(`create table cells (id numeric, a text, doc json, "the ""name"",\n<b>" text)`);
  await sql(
    `insert into cells values (9007199254740993.10, null, E'{"n":\\n 1.10}', ''), (2, 'a "b",\nc', null, 'é😀')`,
  );
  await sql(`insert into cells values (3, repeat('y', 1000000), null, null)`);
  const { text } = await ask('cells/export?id=neq.3&order=id.desc');
  t.is(text, `id,a,doc,"the ""name"",\n<b>"\n9007199254740993.10,,"{""n"":\n 1.10}",""\n2,"a ""b"",\nc",,é😀\n`);
  const json = await ask('cells/export?select=id,doc&id=neq.3&order=id.desc', { accept: 'application/json' });
  t.is(json.text, `[\n{"id":9007199254740993.10,"doc":{"n":  1.10}},\n{"id":2,"doc":null}\n]\n`);
  t.is((await ask('cells/export?id=eq.3&select=a')).text, `a\n${'y'.repeat(1_000_000)}\n`);
  t.is((await ask('cells/export?id=eq.4', { accept: 'application/json' })).text, '[\n]\n');
  t.is((await ask('cells/export?id=eq.4&select=id')).text, 'id\n');
});

test('the place of an export is free when its end has come, or its head was all that was asked for', async (t) => {
  const { ask, readers } = await scene('insert into notes values (1, null, null)');
  for (let n = 0; n < 20; n += 1) t.is((await ask('notes/export?select=id')).text, 'id\n1\n');
  for (let n = 0; n < 3; n += 1) t.is((await ask('notes/export', { method: 'HEAD' })).status, 200);
  isError(t, await ask('notes/export?id=eq.x'), 400, '22P02');
  t.is((await ask('notes/export?select=id')).text, 'id\n1\n');
  await until(async () => (await readers()) === 0);
});

test('an export sees what its role sees: a viewer as the project, anon by its policies', async (t) => {
  const { ask, sql, project } = await scene();
  await sql(`insert into notes values (1, null, 'for all'), (2, gen_random_uuid(), 'mine')`);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { token } = viewer;
  t.is((await ask('notes/export?select=id&order=id', { token })).text, 'id\n1\n2\n');
  t.is((await ask('notes/export?select=id&order=id', { token, as: 'anon' })).text, 'id\n1\n');
  const stranger = await platform().client.signUp();
  isError(t, await ask('notes/export', { token: stranger.token }), 404, 'not_found');
  isError(t, await ask('notes/export', { token: project.key }), 401, 'unauthenticated');
});

test('what cannot be exported is refused before anything is sent, and holds no place', async (t) => {
  const { ask, sql, readers } = await scene();
  await sql(`create table "a/b ""%2F"" <img src=x>" (id int)`);
  await sql(`create function refuse() returns int language plpgsql as $$ begin raise exception 'no'; end $$`);
  await sql(`create view refusing as select refuse() as n`);
  const name = encodeURIComponent('a/b "%2F" <img src=x>');
  t.is((await ask(`${name}/export`)).text, 'id\n');
  t.is((await ask('nothing/export')).status, 404);
  t.is((await ask('big/export?nothing=eq.1')).status, 400);
  t.is((await ask('big/export?id=eq.x')).status, 400);
  t.is((await ask('big/export?order=id.sideways')).status, 400);
  t.is((await ask('refusing/export')).status, 400);
  t.is((await ask('big/export', { accept: 'image/png' })).status, 406);
  t.is((await ask('big/export', { as: 'postgres' })).status, 400);
  await until(async () => (await readers()) === 0);
});

test('a failure in the middle breaks the connection: a part is never taken for the whole', async (t) => {
  t.timeout(longTestMs);
  const { begin, sql } = await scene(manyRows);
  await sql(`create view breaking as select id, filling, 1 / (90000 - id) as n from big order by id`);
  const response = await begin('breaking/export');
  t.is(response.status, 200);
  await t.throwsAsync(response.text());
});
