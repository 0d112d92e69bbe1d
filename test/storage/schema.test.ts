import test from 'ava';
import { denied, useDatabase } from '../database/guard-scene.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const scene = useStorage(test);
const { admin, newBucket, newProject, platform, project, sql, user } = scene;

const database = () => useDatabase(platform(), project());

const rowOf = (bucket: string, name: string): string =>
  `insert into storage.objects (id, bucket_id, name, size, mime_type, etag, cache_control, metadata, version)
   values (gen_random_uuid(), '${bucket}', '${name}', 0, 'a/b', repeat('0', 64), '', '{}', gen_random_uuid())`;

test('the owner reads rows and writes policies, and nothing else of schema storage', async (t) => {
  const bucket = await newBucket();
  dataOf(await admin().from(bucket).upload('a', 'x'));
  const db = database();
  t.deepEqual(await db.query('owner', `select name, size from storage.objects where bucket_id = '${bucket}'`), [
    { name: 'a', size: 1 },
  ]);
  const policy = `create policy "p ${bucket}" on storage.objects for select using (bucket_id = '${bucket}')`;
  t.is(await db.stateOf('owner', policy), null);
  t.is(await db.stateOf('owner', `alter policy "p ${bucket}" on storage.objects using (false)`), null);
  t.is(await db.stateOf('owner', `comment on policy "p ${bucket}" on storage.objects is 'x'`), null);
  t.is(await db.stateOf('owner', `drop policy "p ${bucket}" on storage.objects`), null);
  t.is(await db.stateOf('owner', `create policy "b ${bucket}" on storage.buckets using (false)`), null);
  for (const statement of [
    rowOf(bucket, 'b'),
    'update storage.objects set size = 0',
    'delete from storage.objects',
    'truncate storage.objects',
    'select * from storage.objects for update',
    `insert into storage.buckets (id, name) values ('x', 'x')`,
    'alter table storage.objects disable row level security',
    'alter table storage.objects disable trigger all',
    'alter table storage.objects disable trigger plinth_write',
    'alter table storage.objects add column x int',
    'alter table storage.objects alter column size set default 0',
    'alter table storage.objects drop constraint objects_size_check',
    'alter table storage.objects rename to mine',
    'alter table storage.objects rename column size to s',
    'alter table storage.objects set schema public',
    'alter table storage.objects owner to current_user',
    'alter table storage.objects force row level security',
    'drop table storage.objects cascade',
    'drop trigger plinth_write on storage.objects',
    'drop index storage.objects_bucket_id_name',
    'drop schema storage cascade',
    'drop function storage.foldername(text) cascade',
    'create index on storage.objects (size)',
    'create table storage.mine (x int)',
    'create function storage.mine() returns int language sql as $$ select 1 $$',
    'create table heirs () inherits (storage.objects)',
    'create table likes (like storage.objects including all); alter table likes inherit storage.objects',
    'create rule r as on insert to storage.objects do instead nothing',
    `create function f() returns trigger language plpgsql as $$ begin return null; end $$;
     create trigger t before insert on storage.objects for each row execute function f()`,
    'create table refers (o uuid references storage.objects (id))',
    'grant insert on storage.objects to current_user',
    'grant all on storage.objects to anon',
    'grant update (size) on storage.objects to authenticated',
    'grant plinth_storage_owner to anon',
    'set role plinth_storage_owner',
    'drop policy plinth_service on storage.objects',
    'drop owned by plinth_storage_owner cascade',
    'select * from plinth.storage_key',
    'update plinth.storage_usage set bytes = 0',
    `select plinth.storage_ticket('{}')`,
    `select plinth.set_storage('\\x00', 'x')`,
  ])
    t.true(
      ['42501', '42809', '0LP01'].includes((await db.stateOf('owner', statement)) ?? ''),
      `${statement}: ${await db.stateOf('owner', statement)}`,
    );
});

test('taking the tables from the role that owns them gives the owner no right to write', async (t) => {
  const of = await newProject();
  const db = useDatabase(platform(), of);
  await db.stateOf('owner', 'reassign owned by plinth_storage_owner to current_user');
  for (const statement of [
    rowOf(of.slug, 'b'),
    'grant insert on storage.objects to current_user',
    'alter table storage.objects disable trigger all',
    'drop table storage.objects cascade',
  ])
    t.is(await db.stateOf('owner', statement), denied, statement);
});

test('end users and keys write no row without a ticket, whatever the policies allow', async (t) => {
  const of = await newProject();
  const db = useDatabase(platform(), of);
  await sql(of, 'create policy everything on storage.objects using (true) with check (true)');
  dataOf(await admin(of).from(of.slug).upload('a', 'x'));
  for (const role of ['anon', 'authenticated'] as const) {
    for (const statement of [rowOf(of.slug, 'b'), 'update storage.objects set size = 0', 'delete from storage.objects'])
      t.is(await db.stateAs(role, statement), denied, statement);
    t.is(await db.stateAs(role, 'select from storage.objects'), null);
  }
  for (const statement of [rowOf(of.slug, 'b'), 'update storage.objects set size = 0', 'delete from storage.objects'])
    t.is(await db.stateOf('service', statement), denied, statement);
  const forged = `set plinth.storage_ticket = '${'0'.repeat(64)}.{"op":"delete","exp":9999999999}'`;
  t.is(await db.stateOf('service', forged, 'delete from storage.objects'), denied);
});

test('a ticket that a policy has read lets nobody write anything else, nor twice', async (t) => {
  const of = await newProject();
  const db = useDatabase(platform(), of);
  await sql(
    of,
    'create table stolen (ticket text)',
    `create function steal() returns boolean language plpgsql security definer as $$
     begin insert into stolen values (current_setting('plinth.storage_ticket', true)); return true; end $$`,
    'grant execute on function steal() to authenticated, anon',
    'create policy thief on storage.objects for all to authenticated using (steal()) with check (steal())',
  );
  const ada = await user(of);
  const files = ada.storage.from(of.slug);
  dataOf(await files.upload('a', 'hello'));
  t.is(dataOf(await files.remove(['a'])).length, 1);
  const tickets = await sql(of, `select ticket from stolen where ticket like '%.{%'`);
  t.true(tickets.length >= 2);
  for (const { ticket } of tickets) {
    const take = `set plinth.storage_ticket = '${String(ticket).replaceAll("'", "''")}'`;
    t.is(await db.stateOf('service', take, rowOf(of.slug, 'b')), denied, 'the bytes of the upload may be gone');
  }
  dataOf(await admin(of).from(of.slug).upload('b', 'x'));
  for (const { ticket } of tickets) {
    const take = `set plinth.storage_ticket = '${String(ticket).replaceAll("'", "''")}'`;
    t.is(await db.stateOf('service', take, `delete from storage.objects where name = 'b'`), denied);
    t.is(await db.stateOf('service', take, 'update storage.objects set size = 0'), denied);
  }
});

test('the size of all files is exact through uploads, replacements, moves and deletions', async (t) => {
  const of = await newProject();
  const files = admin(of).from(of.slug);
  const used = async () => {
    const { token } = scene.developer();
    const { body } = await platform().client.call('GET', `/projects/${of.id}/usage`, { token });
    return body.storage_bytes;
  };
  t.deepEqual(await used(), { used: 0, limit: null });
  await Promise.all(['a', 'b', 'c', 'd'].map(async (name) => dataOf(await files.upload(name, 'x'.repeat(100)))));
  t.is((await used()).used, 400);
  dataOf(await files.update('a', 'x'));
  dataOf(await files.move('b', 'z/b'));
  dataOf(await files.copy('c', 'e'));
  t.is((await used()).used, 401);
  dataOf(await files.remove(['d', 'e', 'z/b']));
  t.is((await used()).used, 101);
  dataOf(await admin(of).emptyBucket(of.slug));
  t.is((await used()).used, 0);
});

test('a policy that raises an error, or never ends, is the answer of that request alone', async (t) => {
  const of = await newProject();
  await sql(
    of,
    `create function angry() returns boolean language plpgsql as $$ begin raise exception 'no way'; end $$`,
    'grant execute on function angry() to authenticated',
    'create policy angry on storage.objects for all to authenticated using (angry()) with check (angry())',
  );
  const ada = await user(of);
  dataOf(await admin(of).from(of.slug).upload('a', 'x'));
  for (const answer of [await ada.storage.from(of.slug).upload('b', 'x'), await ada.storage.from(of.slug).list()]) {
    t.is(answer.error?.message, 'A policy failed: no way');
    t.is((answer.error as { statusCode?: string } | null)?.statusCode, '400');
  }
  dataOf(await admin(of).from(of.slug).upload('b', 'x'));
});
