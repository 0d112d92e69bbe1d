import { existsSync } from 'node:fs';
import test from 'ava';
import { statementsIn } from '#domain/database/schema-sql/statements.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { type TestPlatform, startPlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { type TestServer, dumpMajor, startServer } from '../backup/servers.ts';
import { makeDatabase } from './guard-scene.ts';
import { everything, inventory } from './schema-sql-scene.ts';

// A platform on a server of the version that this machine has a pg_dump for.
const major = dumpMajor();
// The packaged server is of version 17.
const hasServer = major !== null && (major >= 17 || existsSync(`/usr/lib/postgresql/${major}/bin/initdb`));
const withDump = hasServer ? test : test.skip;
const needs = hasServer ? '' : ' (skipped: no pg_dump and server of one version here)';

let server: TestServer | null = null;
let running: TestPlatform | undefined;

const platform = (): TestPlatform => {
  if (running === undefined) throw new Error('the platform has not started');
  return running;
};

let user: TestUser;

test.before('a platform on a server whose databases pg_dump dumps', async () => {
  server = major !== null && hasServer ? await startServer(major, 'schema-dump') : null;
  if (server === null) return;
  process.env['DATABASE_URL'] = server.url('postgres');
  running = await startPlatform();
  user = await running.client.signUp();
});

test.after.always('the platform and the server are gone', async () => {
  await running?.stop();
  await server?.stop();
});

const makeProject = async (sql: string): Promise<TestProject> => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  await asTenant(await tenantLogin(platform(), project.id, 'owner'), (client) => client.query(sql));
  return project;
};

const dump = ({ id }: TestProject): Promise<Answer> =>
  platform().client.call('GET', `/projects/${id}/db/schema.sql`, { token: user.token });

const restore = (project: TestProject, sql: string): Promise<Answer> =>
  platform().client.call('POST', `/projects/${project.id}/db/migrations`, {
    token: user.token,
    body: { migrations: [{ name: 'restore', sql }] },
  });

const isByProgram = (text: string): boolean => text.startsWith('-- By pg_dump');

// A policy for the owner's own role does not fit another project.
const portable = everything.replace(/create policy mine on users to current_user.*\n/, '');

const more = `
  create collation sorted from "C";
  create text search configuration own (copy = simple);
  create operator === (leftarg = int, rightarg = int, function = int4eq);
  create function to_mood(int) returns mood language sql immutable return 'sad'::mood;
  create cast (int as mood) with function to_mood(int);
  create function slashes() returns text language sql as $$ select '
\\! touch /tmp/x
\\unrestrict x' $$;`;

withDump(`pg_dump’s form of a schema of everything comes back the same in another project${needs}`, async (t) => {
  const [from, to] = [await makeProject(portable + more), await makeProject('select 1')];
  const { status, text } = await dump(from);
  t.is(status, 200, text);
  t.true(isByProgram(text), text.slice(0, 300));
  const restored = await restore(to, text);
  t.is(restored.status, 200, `${restored.text}\n${text}`);
  t.deepEqual(await inventory(to), await inventory(from));
  t.is((await dump(to)).text, text);
  t.regex(text, /CREATE CAST \(integer AS public\.mood\)/);
  t.notRegex(text, /plinth/);
  t.false(text.includes(from.ref));
});

withDump(
  `a policy for the owner’s own role fits no other project: our own code writes that schema${needs}`,
  async (t) => {
    const project = await makeProject('create table t (id int); create policy p on t to current_user using (true)');
    const { status, text } = await dump(project);
    t.is(status, 200, text);
    t.false(isByProgram(text));
  },
);

withDump(`names of several lines reach no psql as its commands${needs}`, async (t) => {
  const sql = `create table "a\n\\! echo" (id int, "e\n\\! echo" int); comment on table "a\n\\! echo" is 'c\n\\! echo'`;
  const [from, to] = [await makeProject(sql), await makeProject('select 1')];
  const { text } = await dump(from);
  t.true(isByProgram(text));
  t.false(statementsIn(text).some((statement) => /^\s*\\/.test(statement)));
  t.is(text.split('\n').filter((line) => line.startsWith('--')).length, 1);
  t.is((await restore(to, text)).status, 200);
  t.deepEqual(await inventory(to), await inventory(from));
});

withDump(`a table that somebody holds does not hold up pg_dump for good${needs}`, async (t) => {
  const project = await makeProject('create table held (id int)');
  await asTenant(await tenantLogin(platform(), project.id, 'owner'), async (client) => {
    await client.query('begin; lock table held in access exclusive mode');
    const { status, text } = await dump(project);
    t.true([200, 504].includes(status), text);
    await client.query('rollback');
  });
});

withDump(`an owner sees the roles of its own project alone, others none${needs}`, async (t) => {
  const [own, neighbour] = [await makeDatabase(platform()), await makeDatabase(platform())];
  const rows = await own.query('owner', 'select rolname from pg_roles');
  const names = rows.map(({ rolname }) => String(rolname));
  t.true(names.includes(`${own.ref}_owner`));
  t.false(names.some((name) => name.startsWith(neighbour.ref)));
  for (const role of ['service', 'reader', 'api'] as const)
    t.is(await own.stateOf(role, 'select * from pg_roles'), '42501', role);
});
