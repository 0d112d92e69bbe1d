import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

/** Runs SQL, or one call of `asCaller.db`, as its payload says. */
const javascript = `exports.handler = async (payload, { asCaller, caller }) => {
  const tried = async (sql) => {
    try {
      return await asCaller.db.query(sql);
    } catch (error) {
      return error.code ?? error.message;
    }
  };
  if (payload?.sql) return tried(payload.sql);
  if (payload?.several) return asCaller.db.transaction(async (tx) => {
    const answers = [];
    for (const sql of payload.several) answers.push(await tx.query(sql));
    return answers;
  });
  const who = await asCaller.db.queryOne("select current_user::text as role, auth.uid()::text as uid, session_user::text as login");
  return { kind: caller.kind, ...who, notes: (await asCaller.db.select('notes')).map(({ text }) => text).sort() };
}`;

const python = `def handler(payload, sdk):
    db = sdk.as_caller.db
    if payload and 'sql' in payload:
        try:
            return db.query(payload['sql'])
        except db.DatabaseError as error:
            return error.code
    who = db.query_one("select current_user::text as role, auth.uid()::text as uid")
    return {'kind': sdk.caller['kind'], **who, 'notes': sorted(row['text'] for row in db.select('notes'))}
`;

const setUp = `
  create table notes (owner uuid, text text);
  alter table notes enable row level security;
  create policy own on notes for all to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
  create policy open on notes for select to anon using (owner is null);
`;

const alice = '11111111-1111-4111-8111-111111111111';
const bob = '22222222-2222-4222-8222-222222222222';

const made = async (language: 'javascript' | 'python'): Promise<ProjectScene> => {
  const one = await scene(javascript);
  for (const sql of [
    ...setUp.split(';').filter((each) => each.trim() !== ''),
    `insert into notes values ('${alice}', 'a'), ('${bob}', 'b'), (null, 'open')`,
  ]) {
    const { status, text } = await one.ask('POST', '/db/query', { body: { sql } });
    if (status !== 200) throw new Error(text);
  }
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { access: 'public' } });
  if (language === 'javascript') return one;
  const fn = await platform().client.deploy(one.user, one.project, python, { language, access: 'public' });
  return { ...one, fn };
};

const tokenOf = async ({ ask }: ProjectScene, sub: string): Promise<string> => {
  const { body, text } = await ask('POST', '/users/tokens', { body: { sub, claims: {} } });
  if (body.access_token === undefined) throw new Error(text);
  return String(body.access_token);
};

const callAs = async (one: ProjectScene, credentials: { token?: string; key?: string }, body: unknown = {}) => {
  const url = `/p/${one.project.ref}/functions/v1/${one.fn.slug}`;
  return (await platform().client.call('POST', url, { ...credentials, body })).body;
};

for (const language of ['javascript', 'python'] as const) {
  test(`asCaller.db in ${language} sees what the caller may see, and sdk.db is not it`, async (t) => {
    const one = await made(language);
    const { key, publishableKey } = one.project;
    t.like(await callAs(one, {}), { kind: 'public', role: 'anon', uid: null, notes: ['open'] });
    t.like(await callAs(one, { key: publishableKey }), { kind: 'publishable', role: 'anon', notes: ['open'] });
    const token = await tokenOf(one, alice);
    t.like(await callAs(one, { token }), { kind: 'user', role: 'authenticated', uid: alice, notes: ['a'] });
    t.like(await callAs(one, { key }), { kind: 'secret', notes: ['a', 'b', 'open'] });
    const { body } = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: null } });
    t.like(body.result, { kind: 'dashboard', notes: ['a', 'b', 'open'] });
    const sql = `insert into notes values ('${bob}', 'forged')`;
    t.is(await callAs(one, { token }, { sql }), '42501');
  });
}

const claims = `'{"sub":"${bob}","role":"authenticated"}'`;

/** Statements that would shed the caller's role or claims. */
const sheds = [
  'reset role',
  'set role none',
  'set local role authenticated',
  'set session authorization default',
  'reset all',
  'discard all',
  `select set_config('role', 'none', false)`,
  `select pg_catalog.set_config('request.jwt.claims', ${claims}, true)`,
  `select U&"set\\005fconfig"('request.jwt.claims', ${claims}, true)`,
  `select "set_config"('request.jwt.claims', ${claims}, true)`,
  `with x as (select set_config('request.jwt.claims', ${claims}, false)) select * from x, notes`,
  `select * from notes where text = (select set_config('request.jwt.claims', ${claims}, false))`,
  `update pg_settings set setting = 'none' where name = 'role'`,
  `update pg_catalog.pg_settings set setting = ${claims} where name = 'request.jwt.claims'`,
  `with x as (update pg_settings set setting = 'none' where name = 'role' returning 1) select * from x`,
  `select query_to_xml('select set_config(''role'', ''none'', false)', true, false, '')`,
  `select * from ts_stat('select to_tsvector(set_config(''role'', ''none'', false))')`,
  `do $$ begin perform set_config('role', 'none', false); end $$`,
  `prepare x as select set_config('role', 'none', false)`,
  `explain analyze select set_config('role', 'none', false)`,
  `create function pg_temp.x() returns text language sql as $$ select set_config('role', 'none', false) $$`,
  `select 1; reset role`,
  `copy (select 1) to program 'true'`,
  'select * into temp x from notes',
];

test('no statement sheds the caller’s role or claims', async (t) => {
  const one = await made('javascript');
  const token = await tokenOf(one, alice);
  for (const sql of sheds) {
    t.regex(String(await callAs(one, { token }, { sql })), /^42/, sql);
    t.regex(String(await callAs(one, {}, { sql })), /^42/, sql);
  }
  t.like(await callAs(one, { token }), { role: 'authenticated', uid: alice, notes: ['a'] });
});

test('what SQL of the project changes about the session lasts no longer than its statement', async (t) => {
  const one = await made('javascript');
  const create = `create function forge() returns text language sql as $$ select set_config('request.jwt.claims', ${claims}, false) $$`;
  t.is((await one.ask('POST', '/db/query', { body: { sql: create } })).status, 200);
  const token = await tokenOf(one, alice);
  const several = ['select forge()', 'select auth.uid()::text as uid', 'select text from notes'];
  await one.ask('POST', '/db/query', { body: { sql: 'grant execute on function forge() to authenticated' } });
  const answers = await callAs(one, { token }, { several });
  t.deepEqual(answers.slice(1), [[{ uid: alice }], [{ text: 'a' }]]);
});
