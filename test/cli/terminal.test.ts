import { randomBytes } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import type { TestProject } from '#test/support/client.ts';
import { type Workbench, openLinked, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import { asAdmin, hold } from '#test/support/databases.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { type TerminalEnd, type TerminalSpec, inTerminal } from '#test/support/terminal.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);
const kept = useWorkbenches(test);
const entry = path.resolve(import.meta.dirname, '../../cli/plinth.mjs');

interface Typed extends Pick<TerminalSpec, 'columns' | 'steps'> {
  readonly env?: Readonly<Record<string, string>>;
}

const type = (
  { folder, home }: Workbench,
  args: readonly string[],
  { env = {}, ...rest }: Typed = {},
): Promise<TerminalEnd> =>
  inTerminal({
    argv: [process.execPath, entry, ...args],
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, TERM: 'xterm', PLINTH_URL: platform().base, ...env },
    ...rest,
  });

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const bench = await kept(openLinked(platform(), user, project));
  const { token } = await makeToken(platform().client, user, { scopes: ['admin'] });
  return { user, project, bench, env: { PLINTH_ACCESS_TOKEN: token } };
};

test('a password that is typed is not shown', async (t) => {
  const user = await platform().client.signUp();
  const bench = await kept(openWorkbench());
  const end = await type(bench, ['login', '--email', user.email], {
    steps: [{ expect: 'Password: ', send: `x\u007F${user.password}\r` }],
  });
  t.is(end.code, 0, end.output);
  t.false(end.output.includes(user.password));
  t.false(end.output.includes('*'));
  t.true(end.output.includes(`as ${user.email}`));
});

test('Ctrl-C at a question ends with 130', async (t) => {
  const user = await platform().client.signUp();
  const bench = await kept(openWorkbench());
  const end = await type(bench, ['login', '--email', user.email], {
    steps: [{ expect: 'Password: ', send: 'abc\u0003' }],
  });
  t.is(end.code, 130, end.output);
  t.false(end.output.includes('abc'));
});

test('deleting asks, and anything but yes changes nothing', async (t) => {
  const { user, project, bench, env } = await open();
  const { slug } = await platform().client.deploy(user, project, 'export const handler = () => 1;');
  const no = await type(bench, ['functions', 'delete', slug], { env, steps: [{ expect: '[y/N] ', send: '\r' }] });
  t.is(no.code, 2, no.output);
  t.true(no.output.includes(`The function ${slug} and its 1 versions will be deleted.`));
  const yes = await type(bench, ['functions', 'delete', slug], { env, steps: [{ expect: '[y/N] ', send: 'y\r' }] });
  t.is(yes.code, 0, yes.output);
});

test('a copy shows how far it is, and fits a narrow terminal', async (t) => {
  const { project, bench, env } = await open();
  await bench.write('large file with a long name.bin', randomBytes(30_000_000));
  const end = await type(bench, ['storage', 'cp', 'large file with a long name.bin', `plinth://${project.slug}/`], {
    env,
    columns: 40,
  });
  t.is(end.code, 0, end.output);
  t.regex(end.output, /\d %/);
  // oxlint-disable-next-line no-control-regex -- the line is written again after such a sequence
  const drawn = end.output.split(/\r\u001B\[K/).slice(1, -1);
  t.true(drawn.length > 0);
  for (const line of drawn) t.true(line.length < 40, line);
});

test('Ctrl-C in a download leaves no half of a file and no key', async (t) => {
  const { user, project, bench, env } = await open();
  await bench.write('large.bin', randomBytes(40_000_000));
  const place = `plinth://${project.slug}/large.bin`;
  t.is((await bench.run(['storage', 'cp', 'large.bin', place])).code, 0);
  const end = await type(bench, ['storage', 'cp', place, 'back.bin'], {
    env,
    steps: [{ expect: ' %', send: '\u0003' }],
  });
  const files = await readdir(bench.folder);
  // A fast machine may have been done before it was stopped.
  if (end.code === 0) t.true(files.includes('back.bin'));
  else {
    t.is(end.code, 130, end.output);
    t.deepEqual(files.toSorted(), ['large.bin', 'plinth']);
  }
  const keys = await platform().client.call('GET', `/projects/${project.id}/api-keys`, { token: user.token });
  t.false(keys.text.includes('plinth storage'));
});

test('three questions make a small project', async (t) => {
  const bench = await kept(openWorkbench());
  const answers = ['A table', 'Rows', 'A function'].map((expect, index) => ({
    expect,
    send: index === 1 ? 'n\r' : '\r',
  }));
  const end = await type(bench, ['init'], { steps: answers });
  t.is(end.code, 0, end.output);
  t.deepEqual((await readdir(path.join(bench.folder, 'plinth'))).toSorted(), ['functions', 'migrations']);
});

test('colours are for terminals that want them', async (t) => {
  const bench = await kept(openWorkbench());
  t.true((await type(bench, ['nonsense'])).output.includes('\u001B[31m'));
  t.false((await type(bench, ['nonsense'], { env: { NO_COLOR: '1' } })).output.includes('\u001B['));
});

const asProject = async (project: TestProject, ...statements: readonly string[]) =>
  asTenant(await tenantLogin(platform(), project.id, 'owner'), async (session) => {
    for (const sql of statements) await session.query(sql);
  });

/** Statements that run in the database of a project and have that text in them. */
const running = ({ dbName }: TestProject, text: string) =>
  asAdmin('postgres', async (admin) => {
    const sql = `select wait_event_type as waits from pg_stat_activity
      where datname = $1 and state <> 'idle' and strpos(query, $2) > 0`;
    return (await admin.query<{ waits: string | null }>(sql, [dbName, text])).rows;
  });

test('the prompt of SQL takes statements of several lines, shows what is wrong and goes on', async (t) => {
  const { project, bench, env } = await open();
  const [first, next] = [`${project.slug}=> `, `${project.slug}-> `];
  const end = await type(bench, ['db', 'psql'], {
    env,
    steps: [
      { expect: first, send: 'select 6 *\r' },
      { expect: next, send: '7 as answer;\r' },
      { expect: '(1 row)', send: 'select nothing;\r' },
      { expect: 'column "nothing" does not exist', send: 'create table t (a int); insert into t values (1), (2);\r' },
      { expect: 'INSERT 2', send: '\\d\r' },
      { expect: 'public', send: '\u0004' },
    ],
  });
  t.is(end.left, 0, end.output);
  t.is(end.code, 0, end.output);
  t.regex(end.output, /answer[\s\S]*42/);
});

test('Ctrl-C at the prompt of SQL ends the statement that runs, here and on the server, or discards what is typed', async (t) => {
  const { project, bench, env } = await open();
  const prompt = `${project.slug}=> `;
  const end = await type(bench, ['db', 'psql'], {
    env,
    steps: [
      { expect: prompt, send: "select 'slow' from pg_sleep(29);\r" },
      // The end of the line is shown when the statement begins.
      { expect: 'pg_sleep(29);\r', send: '\u0003' },
      { expect: 'Interrupted', send: 'drop table\r' },
      { expect: `${project.slug}-> `, send: 'all of it\u0003' },
      { expect: '^C', send: 'select 1234 + 1;\r' },
      { expect: '1235', send: '\\q\r' },
    ],
  });
  t.is(end.left, 0, end.output);
  t.is(end.code, 0, end.output);
  t.false(end.output.includes('all of it;'));
  await until(async () => (await running(project, 'pg_sleep(29)')).length === 0);
});

/** Everything that `ps` shows of all processes: their command lines and environments. */
const seenByPs = async (): Promise<string> => {
  const texts: string[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    for (const file of ['cmdline', 'environ'])
      texts.push(await readFile(path.join('/proc', pid, file), 'utf8').catch(() => ''));
  }
  return texts.join('\n');
};

test('while SQL runs, no command line and no environment has a password or a token', async (t) => {
  const { user, project, bench } = await open();
  await asProject(project, 'create table held (a int)');
  const secrets = await Promise.all(
    (['owner', 'reader', 'service'] as const).map(
      async (role) => (await tenantLogin(platform(), project.id, role)).password,
    ),
  );
  const login = await type(bench, ['login', '--email', user.email], {
    steps: [{ expect: 'Password: ', send: `${user.password}\r` }],
  });
  t.is(login.code, 0, login.output);
  const stored = await readFile(path.join(bench.home, '.config/plinth/credentials.json'), 'utf8');
  const { sign_ins: signIns } = JSON.parse(stored) as { sign_ins: Record<string, Record<string, string>> };
  const [{ access_token: access = '', refresh_token: refresh = '' } = {}] = Object.values(signIns);
  t.true(access.length > 10 && refresh.length > 10);
  const release = await hold(project.dbName, 'lock table public.held in access exclusive mode');
  const session = type(bench, ['db', 'psql'], {
    steps: [
      { expect: `${project.slug}=> `, send: 'select count(*) as free from held;\r' },
      { expect: '(1 row)', send: '\\q\r' },
    ],
  });
  await until(async () => (await running(project, 'as free from held')).some(({ waits }) => waits === 'Lock'));
  const seen = await seenByPs();
  await release();
  const { code, output } = await session;
  t.is(code, 0, output);
  t.regex(seen, /db\0psql/);
  for (const secret of [user.password, access, refresh, ...secrets]) t.false(`${seen}${output}`.includes(secret));
});
