import test from 'ava';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const bench = await kept(openLinked(platform(), user, project));
  const query = async (sql: string) =>
    (await platform().client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } }))
      .body.rows;
  return { bench, query };
};

test('a seed runs as a whole and says what each statement did', async (t) => {
  const { bench, query } = await open();
  await query('create table guests (name text)');
  await bench.write(
    'plinth/seed.sql',
    `\uFEFFinsert into guests values ('Ada');\r\ncopy guests from stdin;\r\nGrace\r\nMary\r\n\\.\r\n`,
  );
  const dry = await bench.run(['db', 'seed', '--dry-run']);
  t.is(dry.code, 0, dry.stderr);
  t.deepEqual(await query('select * from guests'), []);
  const { value } = await bench.json(['db', 'seed']);
  t.deepEqual(
    value.statements.map(({ row_count: count }: { row_count: number }) => count),
    [1, 2],
  );
  t.deepEqual(await query('select name from guests order by name'), [
    { name: 'Ada' },
    { name: 'Grace' },
    { name: 'Mary' },
  ]);
});

test('a seed that fails keeps nothing and shows the line', async (t) => {
  const { bench, query } = await open();
  await query('create table guests (name text)');
  const file = await bench.write(
    'daten/saat ü.sql',
    `insert into guests values ('Ada');\ninsert into gests\n  values ('Grace');\n`,
  );
  const failed = await bench.run(['db', 'seed', file]);
  t.is(failed.code, 1);
  t.regex(failed.stderr, /saat ü\.sql:2: statement 2: relation "gests" does not exist/);
  t.regex(failed.stderr, /\^/);
  t.deepEqual(await query('select * from guests'), []);
});

test('what is no seed is refused', async (t) => {
  const { bench } = await open();
  t.is((await bench.run(['db', 'seed'])).code, 1, 'there is no file');
  t.is((await bench.run(['db', 'seed', ''])).code, 2);
  await bench.write('plinth/seed.sql', ' \n');
  t.is((await bench.run(['db', 'seed'])).code, 2);
  await bench.write('plinth/seed.sql', 'begin; select 1; commit;');
  t.is((await bench.run(['db', 'seed'])).code, 1);
});
