import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import type { TestUser } from '#test/support/client.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;
let colleague: TestUser;

test.before('there is a project', async () => {
  scene = await openScene(platform());
  colleague = await addMember(platform(), scene.project.orgId, 'developer');
});

const ask = (method: string, path: string, body?: unknown, as = scene.owner) =>
  platform().client.call(method, `/projects/${scene.project.id}${path}`, {
    token: as.token,
    ...(body !== undefined && { body }),
  });

test('a snippet is kept, and a change names the version that it replaces', async (t) => {
  const made = await ask('POST', '/snippets', { name: 'mine', sql: 'select 1' });
  t.is(made.status, 201, made.text);
  t.like(made.body, { name: 'mine', sql: 'select 1', shared: false, version: 1, own: true });
  const at = `/snippets/${made.body.id}`;
  const next = { name: 'mine', sql: 'select 2', shared: true, version: 1 };
  const [one, other] = await Promise.all([ask('PUT', at, next), ask('PUT', at, next)]);
  t.deepEqual(
    [one.status, other.status].toSorted((a, b) => a - b),
    [200, 409],
  );
  const refused = one.status === 409 ? one : other;
  isError(t, refused, 409, 'conflict');
  t.deepEqual(refused.body.details, { version: 2 });
  t.like((await ask('GET', at)).body, { sql: 'select 2', version: 2 });
});

test('a private snippet exists for nobody else; a shared one is for all members, and viewers change none', async (t) => {
  const made = await ask('POST', '/snippets', { name: 'private', sql: 'select 1' });
  const at = `/snippets/${made.body.id}`;
  const body = { name: 'x', sql: 'x', shared: false, version: 1 };
  for (const [method, sent] of [['GET'], ['PUT', body], ['DELETE']] as const) {
    isError(t, await ask(method, at, sent, colleague), 404, 'not_found');
  }
  const listed = await ask('GET', '/snippets', undefined, colleague);
  t.false(listed.body.snippets.some(({ id }: { id: string }) => id === made.body.id));
  t.is((await ask('PUT', at, { ...body, shared: true })).status, 200);
  const { body: seen } = await ask('GET', at, undefined, scene.viewer);
  t.like(seen, { own: false, version: 2 });
  isError(t, await ask('PUT', at, { ...body, version: 2 }, colleague), 403, 'forbidden');
  t.is((await ask('PUT', at, { ...body, shared: true, version: 2 }, colleague)).status, 200);
  isError(t, await ask('DELETE', at, undefined, scene.viewer), 403, 'forbidden');
  isError(t, await ask('POST', '/snippets', { name: 'x', sql: 'x' }, scene.viewer), 403, 'forbidden');
  t.is((await ask('DELETE', at, undefined, colleague)).status, 204);
  isError(t, await ask('GET', at), 404, 'not_found');
});

test('a snippet of another project is not there', async (t) => {
  const made = await ask('POST', '/snippets', { name: 'here', sql: 'select 1', shared: true });
  const other = await platform().client.createProject(scene.owner);
  const at = `/projects/${other.id}/snippets/${made.body.id}`;
  isError(t, await platform().client.call('GET', at, { token: scene.owner.token }), 404, 'not_found');
});

test('a project has room for 500 snippets, and a text for 64 KiB', async (t) => {
  const { client, db } = platform();
  const project = await client.createProject(scene.owner);
  await db.query(
    `insert into sql_snippets (id, project_id, owner_id, name, sql)
     select gen_random_uuid(), $1, $2, 'x', 'x' from generate_series(1, 499)`,
    [project.id, scene.owner.id],
  );
  const keep = (sql: string) =>
    client.call('POST', `/projects/${project.id}/snippets`, { token: scene.owner.token, body: { name: 'x', sql } });
  t.is((await keep('x'.repeat(65_537))).status, 400);
  const both = await Promise.all([keep('x'.repeat(65_536)), keep('x')]);
  t.deepEqual(
    both.map(({ status }) => status).toSorted((a, b) => a - b),
    [201, 409],
  );
});

test('the snippets of a project have room for 4 MB, and one may always become shorter', async (t) => {
  const { client, db } = platform();
  const project = await client.createProject(scene.owner);
  const send = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}/snippets${path}`, {
      token: scene.owner.token,
      ...(body !== undefined && { body }),
    });
  const long = 'ä'.repeat(32_768);
  const first = await send('POST', '', { name: 'first', sql: 'x' });
  await db.query(
    `insert into sql_snippets (id, project_id, owner_id, name, sql)
     select gen_random_uuid(), $1, $2, 'long', $3 from generate_series(1, 63)`,
    [project.id, scene.owner.id, long],
  );
  t.is((await send('POST', '', { name: 'last', sql: long.slice(1) })).status, 201);
  const refused = await send('POST', '', { name: 'one more', sql: 'xxx' });
  isError(t, refused, 409, 'conflict');
  t.is(refused.body.message, 'The snippets of a project may have 4 MB together.');
  const at = `/${first.body.id}`;
  isError(t, await send('PUT', at, { name: 'first', sql: 'xxxx', version: 1 }), 409, 'conflict');
  t.is((await send('PUT', at, { name: 'first', sql: 'xx', version: 1 })).status, 200);
  t.is((await send('PUT', at, { name: 'renamed', sql: 'xx', version: 2 })).status, 200);
  t.is((await send('PUT', at, { name: 'first', sql: '', version: 3 })).status, 200);
  t.is((await send('GET', '?limit=200')).body.snippets.length, 65);
});

test('an account that goes takes its private snippets with it, and leaves the shared ones', async (t) => {
  const leaving = await addMember(platform(), scene.project.orgId, 'developer');
  const [kept, lost] = [
    await ask('POST', '/snippets', { name: 'kept', sql: 'select 1', shared: true }, leaving),
    await ask('POST', '/snippets', { name: 'lost', sql: 'select 1' }, leaving),
  ];
  const gone = await platform().client.call('DELETE', '/auth/me', {
    token: leaving.token,
    body: { password: leaving.password },
  });
  t.is(gone.status, 204, gone.text);
  const left = await platform().db.query('select id from sql_snippets where id = any ($1)', [
    [kept.body.id, lost.body.id],
  ]);
  t.deepEqual(left, [{ id: kept.body.id }]);
});

test('what was run with remember is in the history of who ran it, with rows, time and failure', async (t) => {
  t.is(
    (await ask('POST', '/db/query', { sql: `select '"row_count":9' as row_count`, remember: true }, colleague)).status,
    200,
  );
  t.is((await ask('POST', '/db/query', { sql: 'select nope', remember: true }, colleague)).status, 400);
  t.is((await ask('POST', '/db/script', { sql: 'select 1; select 2', remember: true }, colleague)).status, 200);
  await ask('POST', '/db/query', { sql: 'select 3' }, colleague);
  const { body } = await ask('GET', '/db/history', undefined, colleague);
  t.is(body.total, 3);
  t.like(body.runs[1], { sql: 'select nope', row_count: null, error: '42703' });
  t.like(body.runs[2], { row_count: 1, error: null });
  t.true(body.runs[2].duration_ms >= 0);
  t.is((await ask('GET', '/db/history')).body.total, 0);
  t.is((await ask('DELETE', '/db/history', undefined, colleague)).status, 204);
  t.is((await ask('GET', '/db/history', undefined, colleague)).body.total, 0);
});

test('of a history the last 200 are kept, and the first 16,000 characters of each', async (t) => {
  const { db } = platform();
  await db.query(
    `insert into sql_history (id, project_id, user_id, sql, duration_ms)
     select ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, $1, $2, 'old ' || i, 1 from generate_series(1, 200) i`,
    [scene.project.id, scene.viewer.id],
  );
  const sql = `select 1 -- ${'😀'.repeat(20_000)}`;
  t.is((await ask('POST', '/db/query', { sql, remember: true }, scene.viewer)).status, 200);
  const { body } = await ask('GET', '/db/history?limit=200', undefined, scene.viewer);
  t.is(body.total, 200);
  t.is(Array.from(String(body.runs[0].sql)).length, 16_000);
  t.is(body.runs.at(-1).sql, 'old 2');
});

test('read_only refuses what writes, whoever asks', async (t) => {
  await scene.run('create table kept (id int)');
  isError(t, await ask('POST', '/db/query', { sql: 'insert into kept values (1)', read_only: true }), 400, '25006');
  t.is((await ask('POST', '/db/query', { sql: 'select * from kept', read_only: true })).status, 200);
});
