import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test, { shared: true });

let scene: DatabaseScene;

test.before('a project with a table', async () => {
  scene = await openScene(platform());
  await scene.run('create table notes (id int generated always as identity primary key, body text)');
});

const post = (path: string, body: unknown, key: string, token = scene.owner.token): Promise<Answer> =>
  platform().client.call('POST', `/projects/${scene.project.id}/db${path}`, {
    token,
    body,
    headers: { 'idempotency-key': key },
  });

const query = (sql: string, key: string, token?: string): Promise<Answer> => post('/query', { sql }, key, token);
const countOf = async (body: string): Promise<number> =>
  (await scene.run('select from notes where body = $1', [body])).row_count;
const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true';
const admin = async (sql: string): Promise<Record<string, unknown>[]> =>
  asAdmin(scene.project.dbName, async (client) => (await client.query<Record<string, unknown>>(sql)).rows);

test('twenty statements at once under one key are one, and all have its answer', async (t) => {
  const insert = `insert into notes (body) select 'once ☃' from pg_sleep(0.1) returning id, body`;
  const answers = await Promise.all(Array.from({ length: 20 }, () => query(insert, 'twenty')));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  t.is(answers.filter(isReplay).length, 19);
  t.is(await countOf('once ☃'), 1);
});

test('a key stands for one statement: another is 422 and not run', async (t) => {
  t.is((await query(`insert into notes (body) values ('first')`, 'same')).status, 200);
  const other = await query(`insert into notes (body) values ('second')`, 'same');
  t.deepEqual([other.status, other.body.code], [422, 'idempotency_mismatch']);
  const params = await post('/query', { sql: `insert into notes (body) values ('first')`, params: [] }, 'same');
  t.is(params.status, 422);
  t.is(await countOf('second'), 0);
  const table = await post('/tables', { name: 'same', columns: [{ name: 'id', type: 'int' }] }, 'same');
  t.is(table.status, 422);
});

test('a statement that fails leaves no key', async (t) => {
  const failed = await query(`insert into notes (body, wrong) values ('fails', 1)`, 'fails');
  t.is(failed.status, 400);
  t.is((await query(`insert into notes (body) values ('fails')`, 'fails')).status, 200);
  t.is(await countOf('fails'), 1);
});

test('what fails at the commit leaves neither rows nor a key', async (t) => {
  await scene.run('create table pairs (id int primary key, other int references pairs deferrable initially deferred)');
  const sql = 'insert into pairs values (1, 2)';
  t.is((await query(sql, 'deferred')).body.code, '23503');
  await scene.run('insert into pairs values (2, null)');
  const again = await query(sql, 'deferred');
  t.is(again.status, 200);
  t.false(isReplay(again));
});

test('what cannot be one transaction with its key is refused and says so', async (t) => {
  await scene.run('create procedure commits() language plpgsql as $$ begin commit; end $$');
  for (const sql of ['vacuum notes', 'create index concurrently on notes (body)', 'call commits()']) {
    const refused = await query(sql, sql.replaceAll(' ', '-'));
    t.is(refused.status, 400, sql);
    t.true(['25001', '2D000'].includes(refused.body.code), refused.text);
    t.regex(refused.body.hint, /without/, sql);
    t.is((await scene.query(sql)).status, 200, sql);
  }
});

test('a transaction cannot be ended from within, nor made read-only, and keep its key', async (t) => {
  for (const sql of ['commit', ' /* */ ;commit and chain', 'rollback', 'set transaction read only']) {
    t.is((await query(sql, 'commands')).status, 400, sql);
  }
  const block = `do $$ begin insert into notes (body) values ('block'); commit; end $$`;
  t.is((await query(block, 'commands')).status, 400);
  t.is(await countOf('block'), 0);
  t.is((await query(`insert into notes (body) values ('commands')`, 'commands')).status, 200);
});

test('what a statement sets for its session does not change what is kept', async (t) => {
  const sql = `with s as (select set_config('client_encoding', 'LATIN1', false), set_config('role', 'none', false),
    set_config('search_path', 'nowhere', false)) insert into public.notes (body) select 'ä' from s returning 'x' as x`;
  const first = await query(sql, 'settings');
  t.is(first.status, 200, first.text);
  const again = await query(sql, 'settings');
  t.true(isReplay(again));
  t.is(again.text, first.text);
});

test('an answer of more than 1 MB cannot be kept: nothing is done; without a key it is', async (t) => {
  const sql = `insert into notes (body) values ('large') returning repeat('x', 1100000) as x`;
  const refused = await query(sql, 'large');
  t.deepEqual([refused.status, refused.body.code], [400, '54000']);
  t.is(await countOf('large'), 0);
  t.is((await scene.query(sql)).status, 200);
});

test('what only reads is done again under its key, at any length', async (t) => {
  const sql = `select body from notes union all table longs`;
  await scene.run(`create table longs as select repeat('x', 1100000) as x`);
  t.is((await query(sql, 'reads')).status, 200);
  t.false(isReplay(await query(sql, 'reads')));
});

test('a viewer is not answered what a developer wrote', async (t) => {
  const sql = `insert into notes (body) values ('secret') returning body`;
  t.is((await query(sql, 'viewer')).status, 200);
  const refused = await query(sql, 'viewer', scene.viewer.token);
  t.is(refused.status, 400);
  t.false(refused.text.includes('secret"'));
});

test('a key that is no key is refused before anything runs', async (t) => {
  const refused = await query(`insert into notes (body) values ('no key')`, 'a b');
  t.deepEqual([refused.status, refused.body.code], [400, 'validation_failed']);
  t.is(await countOf('no key'), 0);
});

test('after a day a key is free again', async (t) => {
  const sql = `insert into notes (body) values ('a day') returning body as of_a_day`;
  await query(sql, 'day');
  await admin(
    `update plinth.idempotency_keys set created_at = now() - interval '25 hours' where body like '%of_a_day%'`,
  );
  t.false(isReplay(await query(sql, 'day')));
  t.true(isReplay(await query(sql, 'day')));
  t.is(await countOf('a day'), 2);
});

test('only the owner’s role takes the keys of statements', async (t) => {
  const take = `select * from plinth_api.take_owner_key('${'00'.repeat(33)}', '${'00'.repeat(32)}')`;
  for (const role of ['service', 'reader', 'api'] as const) {
    const login = await tenantLogin(platform(), scene.project.id, role);
    t.is(await sqlStateOf(asTenant(login, (client) => client.query(take))), '42501', role);
  }
  const service = await tenantLogin(platform(), scene.project.id, 'service');
  const longer = `select * from plinth_api.take_key('${'00'.repeat(33)}', '${'00'.repeat(32)}', 'service')`;
  t.is(await sqlStateOf(asTenant(service, (client) => client.query(longer))), '22023');
});

test('a table is made once under its key, and each request has the answer of the first', async (t) => {
  const body = { name: 'made', columns: [{ name: 'id', type: 'int', primary_key: true }] };
  const answers = await Promise.all(Array.from({ length: 6 }, () => post('/tables', body, 'table')));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  t.is(answers.filter(isReplay).length, 5);
  t.is((await post('/tables', body, 'another')).status, 409);
  t.is((await post('/tables', { ...body, name: 'other' }, 'table')).status, 422);
});

test('a column is added once under its key', async (t) => {
  await scene.run('create table grows (id int)');
  const body = { name: 'added', type: 'text', nullable: true };
  const [first, second] = await Promise.all([1, 2].map(() => post('/tables/grows/columns', body, 'column')));
  t.deepEqual([first?.status, second?.status], [201, 201]);
  t.is(first?.text, second?.text);
  t.is((await post('/tables/notes/columns', body, 'column')).status, 422);
});

test('migrations are answered again as they were, and another list under their key does not begin', async (t) => {
  const migrations = [
    { name: '001', sql: 'create table moved (id int)' },
    { name: '002', sql: 'insert into moved values (1)' },
  ];
  const answers = await Promise.all(Array.from({ length: 5 }, () => post('/migrations', { migrations }, 'push')));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  for (const { body } of answers) t.deepEqual(body.applied, ['001', '002']);
  t.is(answers.filter(isReplay).length, 4);
  const other = [{ name: '003', sql: 'insert into moved values (2)' }, ...migrations];
  t.is((await post('/migrations', { migrations: other }, 'push')).status, 422);
  t.is((await scene.run('table moved')).row_count, 1);
});

test('a push that fails on its way leaves no key, and goes on under the same one', async (t) => {
  const first = { name: 'a1', sql: 'create table onward (id int)' };
  const fails = [first, { name: 'a2', sql: 'insert into nowhere values (1)' }];
  t.is((await post('/migrations', { migrations: fails }, 'onward')).status, 400);
  const works = [first, { name: 'a2', sql: 'insert into onward values (1)' }];
  const { status, body } = await post('/migrations', { migrations: works }, 'onward');
  t.is(status, 200);
  t.deepEqual(body, { applied: ['a2'], skipped: ['a1'], dry_run: false });
});

test('a dry run keeps no key', async (t) => {
  const migrations = [{ name: 'dry', sql: 'create table dry (id int)' }];
  t.is((await post('/migrations', { migrations, dry_run: true }, 'dry')).status, 200);
  const real = await post('/migrations', { migrations }, 'dry');
  t.deepEqual(real.body.applied, ['dry']);
});
