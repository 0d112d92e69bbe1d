import { execFileSync } from 'node:child_process';
import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { loadConfig } from '#lib/config.ts';
import { blocksOf, readDocument, sectionOf } from '#test/readme/markdown.ts';
import type { TestProject } from '#test/support/client.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test);

let inside: Platform;
test.before('a second process of the platform', async () => {
  inside = await openPlatform(platform().config, memoryLog().log);
});
test.after.always(() => inside?.close());

/** Moves a deletion back in time. */
const deletedSince = ({ id }: TestProject, age: string): Promise<unknown> =>
  platform().db.transaction(
    (tx) => tx.query('update projects set deleted_at = now() - $2::interval where id = $1', [id, age]),
    systemActor,
  );

const isThere = async ({ id }: TestProject): Promise<boolean> =>
  (await platform().db.query('select from projects where id = $1', [id])).length > 0;

test.serial('a deleted project is kept for seven days, and not longer', async (t) => {
  const { client, config } = platform();
  const user = await client.signUp();
  const [young, old] = [await client.createProject(user), await client.createProject(user)];
  for (const { id } of [young, old]) await client.call('DELETE', `/projects/${id}`, { token: user.token });
  await deletedSince(young, '6 days 23 hours 59 minutes');
  await deletedSince(old, '7 days 1 second');
  t.is(config.PLINTH_DELETED_PROJECT_DAYS, 7);
  await inside.projects.purge(config.PLINTH_DELETED_PROJECT_DAYS);
  t.true(await isThere(young));
  t.false(await isThere(old));
});

test.serial('seven days are what is kept unless the setting says otherwise', (t) => {
  const { DATABASE_URL, REDIS_URL, PLINTH_SECRET_KEYS } = platform().config;
  t.is(loadConfig({ DATABASE_URL, REDIS_URL, PLINTH_SECRET_KEYS }).PLINTH_DELETED_PROJECT_DAYS, 7);
});

const sqlOfPage = blocksOf(sectionOf(readDocument('docs/operations/backup.md'), 'A deleted project')).map(
  ({ text }) => text,
);

const hasPsql = ((): boolean => {
  try {
    execFileSync('psql', ['--version']);
    return true;
  } catch {
    return false;
  }
})();

const psql = (url: string, sql: string | undefined, variables: Readonly<Record<string, string>>): string => {
  const given = Object.entries(variables).flatMap(([name, value]) => ['-v', `${name}=${value}`]);
  const args = ['-XAtq', '-v', 'ON_ERROR_STOP=1', ...given, url];
  return execFileSync('psql', args, { input: `${sql}\n`, encoding: 'utf8' });
};

const withPsql = hasPsql ? test.serial : test.serial.skip;

withPsql(`a deleted project is had back as the page says${hasPsql ? '' : ' (needs psql)'}`, async (t) => {
  const { client, config } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const greet = await client.deploy(user, project, 'exports.handler = (p) => `hello ${p}`');
  const login = await tenantLogin(platform(), project.id, 'owner');
  await asTenant(login, (session) => session.query(`create table notes as select 'kept' as text`));
  await client.call('DELETE', `/projects/${project.id}`, { token: user.token });
  await inside.projects.retireLeftOvers();
  t.is((await client.call('GET', `/projects/${project.id}`, { token: user.token })).status, 404);

  const answered = psql(config.DATABASE_URL, sqlOfPage[0], { id: project.id });
  t.true(answered.includes(`${project.ref}|${project.dbName}`));
  const server = new URL(testEnv('DATABASE_URL'));
  server.pathname = '/postgres';
  psql(server.toString(), sqlOfPage[1], { ref: project.ref, db_name: project.dbName });

  const shown = await client.call('GET', `/projects/${project.id}`, { token: user.token });
  t.like(shown.body, { status: 'active', db_name: project.dbName });
  const { rows } = await asTenant(login, (session) => session.query('select text from notes'));
  t.deepEqual(rows, [{ text: 'kept' }]);
  const invoked = await client.call('POST', `/api/functions/${greet.slug}`, { key: project.key, body: 'again' });
  t.is(invoked.body, 'hello again');
  await inside.projects.retireLeftOvers();
  await inside.projects.purge(0);
  t.true(await isThere(project));
});
