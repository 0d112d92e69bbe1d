import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { type RestProject, createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

let p: RestProject;

test.before('a project with a table that everybody can write', async () => {
  p = await createRestProject(
    platform(),
    `create table notes (id int generated always as identity primary key, body text);
     alter table notes enable row level security;
     create policy everybody on notes for all using (true);
     create function long(n int) returns text language plpgsql volatile as $$
       begin insert into notes (body) values ('long ' || n); return repeat('x', n); end $$`,
  );
});

const admin = async (sql: string, database = p.project.dbName): Promise<Record<string, unknown>[]> =>
  asAdmin(database, async (client) => (await client.query<Record<string, unknown>>(sql)).rows);

/** Keys of a share with answers that count 1 MB each, as if they had been kept some time ago. */
const fill = (share: string, megabytes: number, age: string, database?: string) =>
  admin(
    `with kept as (
       insert into plinth.idempotency_keys (key, fingerprint, share, status, headers, body, bytes, created_at)
       select sha256(('${share} ${age} ' || i)::bytea), '', '${share}', 200, '{}', '', 1048576, now() - interval '${age}'
       from generate_series(1, ${megabytes}) i returning bytes)
     select plinth.count_idempotency('${share}', sum(bytes)::bigint) from kept`,
    database,
  );

const held = async (share: string): Promise<{ keys: number; counted: number; summed: number }> => {
  const [row] = await admin(`select count(*)::int as keys, coalesce(sum(bytes), 0)::int as summed,
    (select coalesce(sum(bytes), 0)::int from plinth.idempotency_use where share = '${share}') as counted
    from plinth.idempotency_keys where share = '${share}'`);
  return row as Awaited<ReturnType<typeof held>>;
};

const write = (ask: RestProject['rest'], key: string) =>
  ask('POST', '/notes', { body: { body: key }, headers: { 'idempotency-key': key } });

test.serial('what is counted is what is kept', async (t) => {
  const before = await held('service');
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => write(p.rest, `counted-${i % 10}`)));
  t.true(answers.every(({ status }) => status === 201));
  const after = await held('service');
  t.is(after.keys, before.keys + 10);
  t.is(after.counted, after.summed);
  t.true(after.counted > before.counted + 10 * 256);
});

test.serial('an answer of more than 1 MB cannot be kept: nothing is done, and the key stays free', async (t) => {
  const headers = { 'idempotency-key': 'long' };
  const refused = await p.rest('POST', '/rpc/long', { body: { n: 1_048_575 }, headers });
  t.deepEqual([refused.status, refused.body.code], [400, '54000']);
  t.is((await p.sql(`select from notes where body like 'long %'`)).length, 0);
  const kept = await p.rest('POST', '/rpc/long', { body: { n: 1_048_574 }, headers });
  t.is(kept.status, 200);
  const replayed = await p.rest('POST', '/rpc/long', { body: { n: 1_048_574 }, headers });
  t.is(replayed.text, kept.text);
  t.is(replayed.headers.get('idempotent-replayed'), 'true');
});

test.serial('keys of the last minutes are never given up: who has filled the space is refused new ones', async (t) => {
  t.is((await write(p.rest, 'mine')).status, 201);
  t.is((await write(p.anon, 'theirs')).status, 201);
  await fill('anon', 17, '5 minutes');
  const before = await held('anon');
  const refused = await write(p.anon, 'one-more');
  t.deepEqual([refused.status, refused.body.code], [429, 'idempotency_keys_full']);
  t.truthy(refused.body.hint);
  t.is((await p.sql(`select from notes where body = 'one-more'`)).length, 0);
  t.is((await p.anon('POST', '/notes', { body: { body: 'keyless' } })).status, 201);
  t.is((await write(p.anon, 'theirs')).headers.get('idempotent-replayed'), 'true');
  t.deepEqual(await held('anon'), before);
  t.is((await write(p.rest, 'mine')).headers.get('idempotent-replayed'), 'true');
  t.is((await write(p.rest, 'another of mine')).status, 400);
  t.is((await write(p.rest, 'another-of-mine')).status, 201);
});

test.serial('what is older makes room, of the own share alone', async (t) => {
  await fill('anon', 3, '11 minutes');
  await fill('service', 2, '12 minutes');
  const [service, anon] = [await held('service'), await held('anon')];
  t.is((await write(p.anon, 'after')).status, 201);
  const after = await held('anon');
  t.is(after.keys, anon.keys - 3 + 1);
  t.is(after.counted, after.summed);
  t.deepEqual(await held('service'), service);
});

test.serial('a day later keys are swept, of whoever they are, and can be used again', async (t) => {
  await fill('authenticated:someone', 3, '25 hours');
  t.is((await write(p.rest, 'tomorrow')).status, 201);
  await admin(`update plinth.idempotency_keys set created_at = now() - interval '25 hours'
    where share = 'service' and status = 201`);
  const again = await write(p.rest, 'tomorrow');
  t.deepEqual([again.status, again.headers.get('idempotent-replayed')], [201, null]);
  t.deepEqual(await held('authenticated:someone'), { keys: 0, counted: 0, summed: 0 });
  t.is((await admin(`select from plinth.idempotency_use where share = 'authenticated:someone'`)).length, 0);
  const service = await held('service');
  t.is(service.counted, service.summed);
  t.is((await write(p.rest, 'tomorrow')).headers.get('idempotent-replayed'), 'true');
});

test.serial('users together have a bound, too, and make room for each other when keys are old', async (t) => {
  await fill('authenticated:many', 129, '11 minutes');
  t.is((await write(p.rest, 'sweeps')).status, 201);
  t.deepEqual(await held('authenticated:many'), { keys: 0, counted: 0, summed: 0 });
  t.is((await write(p.rest, 'sweeps')).headers.get('idempotent-replayed'), 'true');
});

test.serial('SQL of the project cannot keep what is no answer', async (t) => {
  const key = `repeat('ab', 32)`;
  for (const [call, state] of [
    [`take_key(${key}, ${key}, 'mine')`, '22023'],
    [`take_key(${key}, repeat('ab', 1000000), 'anon')`, '22023'],
    [`keep_answer(${key}, '200', '{}', repeat('x', 2000000))`, '22023'],
  ] as const) {
    t.is(await sqlStateOf(p.sql(`select * from plinth_api.${call}`)), state, call);
  }
});

test.serial('every user has a share of their own', async (t) => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const sub = crypto.randomUUID();
  const signed = await platform().client.call('POST', `/projects/${project.id}/users/tokens`, {
    token: user.token,
    body: { sub },
  });
  const query = (sql: string) =>
    platform().client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } });
  await query('create function one() returns int language sql volatile as $$select 1$$');
  await query('grant execute on function one() to authenticated');
  const ask = (key: string) =>
    platform().client.call('POST', `/p/${project.ref}/v1/rest/rpc/one`, {
      token: signed.body.access_token,
      body: {},
      headers: { 'idempotency-key': key },
    });
  t.is((await ask('k')).status, 200);
  const [kept] = await admin('select share from plinth.idempotency_keys', project.dbName);
  t.regex(String(kept?.['share']), /^authenticated:[0-9a-f]{64}$/);
  await fill('authenticated:another', 5, '5 minutes', project.dbName);
  t.is((await ask('k2')).status, 200);
  await fill(String(kept?.['share']), 5, '5 minutes', project.dbName);
  t.is((await ask('k3')).status, 429);
});
