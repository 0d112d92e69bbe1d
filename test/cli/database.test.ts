import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { type Workbench, openLinked, useWorkbenches } from '#test/support/cli.ts';
import { addMember } from '#test/support/members.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const bench = await kept(openLinked(platform(), user, project));
  const query = async (sql: string): Promise<readonly Record<string, unknown>[]> => {
    const where = `/projects/${project.id}/db/query`;
    return (await platform().client.call('POST', where, { token: user.token, body: { sql } })).body.rows;
  };
  return { user, project, bench, query };
};

const migration = (bench: Workbench, number: number, sql: string): Promise<string> =>
  bench.write(`plinth/migrations/2026010100000${number}_step.sql`, sql);

const name = (number: number): string => `2026010100000${number}_step`;

test('a new migration comes behind the others', async (t) => {
  const { bench } = await open();
  const first = await bench.run(['db', 'new', 'Rooms & Guests']);
  t.is(first.code, 0, first.stderr);
  t.regex(first.stdout, /^plinth\/migrations\/\d{14}_rooms_guests\.sql\n$/);
  await bench.write('plinth/migrations/99990101000000_late.sql', '');
  const second = await bench.run(['db', 'new', 'later']);
  t.regex(second.stdout, /99990101000001_later\.sql/);
  for (const bad of ['', '  ', '///', 'x'.repeat(101)]) t.is((await bench.run(['db', 'new', bad])).code, 2, bad);
});

test('pending migrations are applied in order, once', async (t) => {
  const { bench, query } = await open();
  await migration(bench, 1, 'create table rooms (number int primary key);\n');
  await migration(bench, 2, 'insert into rooms values (7);\n');
  t.deepEqual((await bench.json(['db', 'status'])).value, [
    { name: name(1), state: 'pending' },
    { name: name(2), state: 'pending' },
  ]);
  const pushed = await bench.json(['db', 'push']);
  t.is(pushed.code, 0, pushed.stderr);
  t.deepEqual(pushed.value, { applied: [name(1), name(2)], dry_run: false });
  t.deepEqual(await query('select number from rooms'), [{ number: 7 }]);
  t.deepEqual((await bench.json(['db', 'push'])).value.applied, []);
  const status = await bench.run(['db', 'status']);
  t.is(status.code, 0);
  t.regex(status.stdout, /applied +20260101000001_step/);
});

test('a dry run keeps nothing and finds what is wrong', async (t) => {
  const { bench, query } = await open();
  await migration(bench, 1, 'create table rooms (number int primary key);');
  t.is((await bench.run(['db', 'push', '--dry-run'])).code, 0);
  t.deepEqual(await query(`select 1 as found from pg_tables where tablename = 'rooms'`), []);
  await migration(bench, 2, 'insert into nowhere values (1);');
  t.is((await bench.run(['db', 'push', '--dry-run'])).code, 1);
});

test('a migration that fails is shown with its line and a caret, and nothing of it is kept', async (t) => {
  const { bench, query } = await open();
  await migration(bench, 1, 'create table rooms (number int primary key);');
  await migration(
    bench,
    2,
    '-- Zimmer für Gäste 🛏\ninsert into rooms values (1);\ninsert into rooms\n  values (2, now);\n',
  );
  const pushed = await bench.run(['db', 'push']);
  t.is(pushed.code, 1);
  t.regex(pushed.stderr, /applied {2}20260101000001_step/);
  t.regex(pushed.stderr, /20260101000002_step\.sql:4: column "now" does not exist/);
  const lines = pushed.stderr.split('\n');
  const at = lines.findIndex((line) => line.includes('values (2, now)'));
  t.is(lines[at + 1]?.indexOf('^'), lines[at]?.indexOf('now'));
  t.deepEqual(await query('select number from rooms'), []);
  const { value, code } = await bench.json(['db', 'push']);
  t.is(code, 1);
  t.is(value.error.details.line, 4);
});

test('a file that was changed after it was applied is a conflict, with its name', async (t) => {
  const { bench } = await open();
  await migration(bench, 1, 'create table rooms (number int);');
  await bench.run(['db', 'push']);
  await migration(bench, 1, 'create table rooms (number bigint);');
  for (const command of ['push', 'status']) {
    const answer = await bench.run(['db', command]);
    t.is(answer.code, 5, command);
    t.regex(answer.stderr, /20260101000001_step/);
  }
});

test('line ends of Windows and a byte order mark change nothing', async (t) => {
  const { bench } = await open();
  await migration(bench, 1, 'create table rooms (\n  number int\n);\n');
  await bench.run(['db', 'push']);
  await migration(bench, 1, '\uFEFFcreate table rooms (\r\n  number int\r\n);\r\n');
  t.is((await bench.run(['db', 'push'])).code, 0);
});

test('of two pushes at once each migration is applied once, and both succeed', async (t) => {
  const { bench, query } = await open();
  for (let i = 1; i <= 5; i += 1) await migration(bench, i, `create table t${i} (id int); select pg_sleep(0.1);`);
  const answers = await Promise.all([bench.json(['db', 'push']), bench.json(['db', 'push'])]);
  t.deepEqual(
    answers.map(({ code }) => code),
    [0, 0],
  );
  const applied = answers.flatMap(({ value }) => value.applied);
  t.is(applied.length, 5);
  t.deepEqual(await query(`select count(*)::int as tables from pg_tables where tablename ~ '^t[1-5]$'`), [
    { tables: 5 },
  ]);
});

test('two hundred migrations are one push', async (t) => {
  const { bench } = await open();
  for (let i = 0; i < 200; i += 1) {
    await bench.write(
      `plinth/migrations/2026010100${String(i).padStart(4, '0')}_t.sql`,
      `create table t${i % 20}_${i} (id int); drop table t${i % 20}_${i};`,
    );
  }
  const { value } = await bench.json(['db', 'push']);
  t.is(value.applied.length, 200);
});

test('a name out of order is refused, and an older migration is warned of', async (t) => {
  const { bench } = await open();
  await bench.write('plinth/migrations/readme.sql', '');
  t.is((await bench.run(['db', 'status'])).code, 2);
  const other = await open();
  await migration(other.bench, 5, 'select 1;');
  await other.bench.run(['db', 'push']);
  await migration(other.bench, 1, 'select 1;');
  const pushed = await other.bench.run(['db', 'push']);
  t.is(pushed.code, 0);
  t.regex(pushed.stderr, /warning: 20260101000001_step is older/);
});

test('the first pull of a project that was made by hand writes a migration that counts as applied', async (t) => {
  const { bench, query } = await open();
  await query('create table rooms (number int primary key)');
  const pulled = await bench.run(['db', 'pull']);
  t.is(pulled.code, 0, pulled.stderr);
  t.regex(await readFile(path.join(bench.folder, 'plinth/schema.sql'), 'utf8'), /rooms/i);
  const files = await readdir(path.join(bench.folder, 'plinth/migrations'));
  t.is(files.length, 1);
  t.deepEqual((await bench.json(['db', 'push'])).value.applied, []);
  t.is((await bench.run(['db', 'pull', '--check'])).code, 0);
  await query('alter table rooms add column name text');
  const changed = await bench.run(['db', 'pull', '--check']);
  t.is(changed.code, 5);
  t.regex(changed.stderr, /plinth db pull/);
  t.is((await bench.run(['db', 'pull'])).code, 0);
  t.is((await readdir(path.join(bench.folder, 'plinth/migrations'))).length, 1, 'a second pull makes none');
});

test('the first pull of an empty project writes no migration', async (t) => {
  const { bench } = await open();
  t.is((await bench.json(['db', 'pull'])).value.baseline, null);
});

test('types are printed, written and compared', async (t) => {
  const { bench, query } = await open();
  await query('create table rooms (number int primary key)');
  t.regex((await bench.run(['db', 'types'])).stdout, /rooms/);
  const options = ['db', 'types', '-o', 'src/db types.ts'];
  t.is((await bench.run([...options, '--check'])).code, 5);
  t.is((await bench.run(options)).code, 0);
  t.is((await bench.run([...options, '--check'])).code, 0);
  t.is((await bench.run(['db', 'types', '--check'])).code, 2);
  t.is((await bench.run(['db', 'types', '-o', ''])).code, 2);
});

test('a viewer can read and not push, and another user sees no project', async (t) => {
  const { bench, project } = await open();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const stranger = await platform().client.signUp();
  const [see, none] = await Promise.all([viewer, stranger].map((user) => makeToken(platform().client, user)));
  await migration(bench, 1, 'create table rooms (number int);');
  const asViewer = { env: { PLINTH_ACCESS_TOKEN: see?.token } };
  t.is((await bench.run(['db', 'status'], asViewer)).code, 0);
  t.is((await bench.run(['db', 'push'], asViewer)).code, 1);
  t.is((await bench.run(['db', 'status'], { env: { PLINTH_ACCESS_TOKEN: none?.token } })).code, 4);
});
