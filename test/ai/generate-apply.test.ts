import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from '../database/scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('a project', async () => {
  scene = await openScene(platform());
});

const apply = (
  kind: 'schema' | 'rls',
  body: unknown,
  {
    token = scene.owner.token,
    key,
    project = scene.project.id,
  }: { token?: string; key?: string; project?: string } = {},
): Promise<Answer> =>
  platform().client.call('POST', `/projects/${project}/ai/${kind}/apply`, {
    token,
    body,
    ...(key !== undefined && { headers: { 'idempotency-key': key } }),
  });
const approved = (sql: string) => ({ sql, approved: true });
const exists = async (table: string): Promise<boolean> =>
  (await scene.run('select to_regclass($1) is not null as there', [`public.${table}`])).rows[0].there;

test.serial('nothing is applied without approval, and approval is the word true', async (t) => {
  const sql = 'create table unapproved (id int)';
  for (const body of [{ sql }, ...[false, 'true', 1, null, [true]].map((value) => ({ sql, approved: value }))]) {
    const answer = await apply('schema', body);
    t.deepEqual([answer.status, answer.body.code], [400, 'approval_required']);
  }
  t.false(await exists('unapproved'));
});

test.serial(
  'a table, its index, a column and its policies are applied one by one, and the data API knows at once',
  async (t) => {
    const sql = 'create table notes (id int primary key, author uuid, body text not null default $$;$$);';
    const made = await apply('schema', approved(sql));
    t.deepEqual([made.status, made.body], [200, { applied: true, command: 'CREATE TABLE', sql, tables: ['notes'] }]);
    const { key } = scene.project;
    t.is((await platform().client.call('GET', '/rest/v1/notes', { key })).status, 200);
    t.is((await apply('schema', approved('create index on notes (author)'))).body.command, 'CREATE INDEX');
    t.is((await apply('schema', approved('alter table notes add column mood text'))).body.command, 'ALTER TABLE');
    t.is((await platform().client.call('GET', '/rest/v1/notes?select=mood', { key })).status, 200);
    t.deepEqual((await apply('rls', approved('alter table notes enable row level security'))).body.policies, []);
    const policy = await apply('rls', approved('create policy own on notes for select using (auth.uid() = author)'));
    t.deepEqual([policy.status, policy.body.command, policy.body.policies], [200, 'CREATE POLICY', ['own']]);
    const renamed = await apply('rls', approved('alter policy own on notes rename to mine'));
    t.deepEqual(renamed.body.policies, ['mine']);
  },
);

test.serial('what the server refuses is told with its code and place, and changes nothing', async (t) => {
  const sql = 'create table broken (\n  id int, b nonsense)';
  const unknown = await apply('schema', approved(sql));
  t.deepEqual([unknown.status, unknown.body.code], [400, '42704']);
  t.deepEqual([unknown.body.details.line, unknown.body.details.column], [2, 13]);
  const noTable = await apply('rls', approved('create policy p on nowhere using (true)'));
  t.deepEqual([noTable.status, noTable.body.code], [400, '42P01']);
  t.false(await exists('broken'));
});

test.serial(
  'only PostgreSQL 18 knows virtual columns by that word: the server refuses what the parser takes',
  async (t) => {
    const answer = await apply('schema', approved('create table v (a int, b int generated always as (a + 1) virtual)'));
    t.deepEqual([answer.status, answer.body.code], [400, '42601']);
  },
);

test.serial('twenty requests with one key apply once, and all have its answer', async (t) => {
  const body = approved('create table once (id int)');
  const answers = await Promise.all(Array.from({ length: 20 }, () => apply('schema', body, { key: 'apply-once' })));
  t.is(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1, answers[0]?.text);
  t.is(answers[0]?.status, 200);
  t.is(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true').length, 19);
  const other = await apply('schema', approved('create table twice (id int)'), { key: 'apply-once' });
  t.deepEqual([other.status, other.body.code], [422, 'idempotency_mismatch']);
  t.false(await exists('twice'));
});

test.serial('a statement that fails leaves no key', async (t) => {
  const body = approved('create index on later (id)');
  t.is((await apply('schema', body, { key: 'later' })).status, 400);
  await scene.run('create table later (id int)');
  t.is((await apply('schema', body, { key: 'later' })).status, 200);
});

test.serial('an index is made concurrently, once for its key, and a build that fails leaves nothing', async (t) => {
  await scene.run('create table indexed (id int, note text)');
  await scene.run('insert into indexed values (1), (1)');
  const body = approved('create index concurrently indexed_id on indexed (id)');
  const first = await apply('schema', body, { key: 'concurrently' });
  t.deepEqual([first.status, first.body.command], [200, 'CREATE INDEX'], first.text);
  const again = await apply('schema', body, { key: 'concurrently' });
  t.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true'], again.text);
  const without = await apply('schema', body);
  t.deepEqual([without.status, without.body.code], [400, '42P07']);
  const twins = approved('create unique index concurrently indexed_once on indexed (id)');
  const failed = await apply('schema', twins, { key: 'twins' });
  t.is(failed.body.code, '23505', failed.text);
  t.true(await exists('indexed_id'));
  t.false(await exists('indexed_once'));
  await scene.run('delete from indexed');
  t.is((await apply('schema', twins, { key: 'twins' })).status, 200);
  await scene.run('create function lower(int) returns int immutable language sql as $$ select $1 $$');
  const own = await apply('schema', approved('create index concurrently indexed_own on indexed (lower(note))'));
  t.deepEqual([own.status, own.body.code], [400, 'sql_not_allowed']);
  await scene.run('drop function lower(int)');
});

test.serial('the plan’s number of tables holds', async (t) => {
  const owner = await platform().client.signUp();
  const project = await platform().client.createProject(owner);
  const as = { token: owner.token, project: project.id };
  for (let number = 0; number < 10; number += 1) {
    t.is((await apply('schema', approved(`create table t${number} (id int)`), as)).status, 200);
  }
  const eleventh = await apply('schema', approved('create table t10 (id int)'), as);
  t.deepEqual([eleventh.status, eleventh.body.code], [403, 'plan_limit_exceeded']);
});

test.serial('strangers find nothing, viewers may not, and another project stays as it was', async (t) => {
  const stranger = await platform().client.signUp();
  const body = approved('create table foreigners (id int)');
  t.is((await apply('schema', body, { token: stranger.token })).status, 404);
  t.is((await apply('rls', body, { token: scene.viewer.token })).status, 403);
  const developer = await addMember(platform(), scene.project.orgId, 'developer');
  t.is((await apply('schema', body, { token: developer.token })).status, 200);
  const neighbour = await platform().client.createProject(stranger);
  const there = await asAdmin(neighbour.dbName, (client) =>
    client.query(`select to_regclass('public.foreigners') as at`),
  );
  t.is(there.rows[0].at, null);
});

test.serial('who waits 5 s for a lock is told that the table is in use', async (t) => {
  await scene.run('create table busy (id int)');
  await asAdmin(scene.project.dbName, async (client) => {
    await client.query('begin; lock table busy in access share mode');
    const answer = await apply('schema', approved('alter table busy add column b int'));
    t.deepEqual([answer.status, answer.body.code], [409, 'conflict']);
    await client.query('rollback');
  });
});

test.serial('a body with too much or too little is 400', async (t) => {
  for (const body of [{ approved: true }, { sql: 1, approved: true }, { ...approved('x'), more: 1 }, approved('a\0')]) {
    t.deepEqual([(await apply('schema', body)).status, (await apply('rls', body)).status], [400, 400]);
  }
  t.is((await apply('schema', approved(''))).body.code, 'sql_not_allowed');
});
