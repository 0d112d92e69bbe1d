import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { runSql, runStatements } from '#domain/database/migrations.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test);

let user: TestUser;

test.before('somebody is there', async () => {
  user = await platform().client.signUp();
});

interface Scene {
  readonly project: TestProject;
  readonly push: (migrations: unknown, more?: Readonly<Record<string, unknown>>) => Promise<Answer>;
  readonly list: (query?: string) => Promise<Answer>;
  readonly query: (sql: string) => Promise<Record<string, unknown>[]>;
}

const scene = async (): Promise<Scene> => {
  const { client } = platform();
  const project = await client.createProject(user);
  const path = `/projects/${project.id}/db/migrations`;
  const login = await tenantLogin(platform(), project.id, 'owner');
  return {
    project,
    push: (migrations, more = {}) => client.call('POST', path, { token: user.token, body: { migrations, ...more } }),
    list: (query = '') => client.call('GET', `${path}${query}`, { token: user.token }),
    query: (sql) => asTenant(login, async (tenant) => (await tenant.query<Record<string, unknown>>(sql)).rows),
  };
};

const names = async ({ list }: Scene): Promise<string[]> =>
  (await list()).body.migrations.map(({ name }: { name: string }) => name);

const first = {
  name: '001_notes',
  sql: `create table notes (id int primary key, body text);\ninsert into notes values (1, 'a;b')`,
};
const second = {
  name: '002_more',
  sql: 'alter table notes add at timestamptz; create index on notes (at); update notes set at = now();',
};

test('a step may be megabytes of quotes, and SQL that is too long to be run at once is refused', async (t) => {
  const here = await scene();
  const sql = `create table long as select '${"''".repeat(2_000_000)}' as quotes, E'${'\\\\'.repeat(200_000)}' as slashes`;
  const pushed = await here.push([{ name: '001', sql }]);
  t.is(pushed.status, 200, pushed.text);
  t.deepEqual(await here.query('select length(quotes) as quotes, length(slashes) as slashes from long'), [
    { quotes: 2_000_000, slashes: 200_000 },
  ]);
  await asTenant(await tenantLogin(platform(), here.project.id, 'owner'), async (client) => {
    const tooLong = `select '${'x'.repeat(8 * 1024 * 1024)}'`;
    await t.throwsAsync(runSql(client, tooLong), { code: 'payload_too_large' });
    const comments = ['a', 'b', 'c'].map((text) => `comment on table long is '${text.repeat(700_000)}'`);
    await runStatements(client, comments);
    await t.throwsAsync(runStatements(client, [`comment on table long is 'd'`, tooLong]), {
      code: 'payload_too_large',
    });
  });
  t.deepEqual(await here.query(`select left(obj_description('long'::regclass), 1) as comment`), [{ comment: 'd' }]);
});

test('steps of several statements are applied once, in their order', async (t) => {
  const here = await scene();
  const pushed = await here.push([first, second]);
  t.is(pushed.status, 200, pushed.text);
  t.deepEqual(pushed.body, { applied: ['001_notes', '002_more'], skipped: [], dry_run: false });
  t.deepEqual((await here.push([first, second, { name: '003', sql: '' }])).body, {
    applied: ['003'],
    skipped: ['001_notes', '002_more'],
    dry_run: false,
  });
  t.deepEqual(await here.query('select id, body from notes'), [{ id: 1, body: 'a;b' }]);
  const { migrations, total } = (await here.list('?limit=1&offset=1')).body;
  t.is(total, 3);
  t.is(migrations[0].name, '002_more');
  t.is(migrations[0].checksum, createHash('sha256').update(second.sql).digest('hex'));
  t.regex(migrations[0].applied_at, /^\d{4}-.*Z$/);
});

test('a version stands before the name', async (t) => {
  const here = await scene();
  const { body } = await here.push([
    { version: '20260101', name: 'a', sql: 'select 1' },
    { version: '20260102', sql: 'select 1' },
  ]);
  t.deepEqual(body.applied, ['20260101_a', '20260102']);
});

test('a step that was changed after it was applied is refused before anything runs', async (t) => {
  const here = await scene();
  await here.push([first]);
  const answer = await here.push([
    { name: 'new', sql: 'create table new_one ()' },
    { ...first, sql: `${first.sql} ` },
  ]);
  t.is(answer.status, 409);
  t.is(answer.body.code, 'migration_changed');
  t.deepEqual(answer.body.details, { migration: '001_notes' });
  t.deepEqual(await names(here), ['001_notes']);
});

test('of a step that fails nothing stays; those before it do, and those after it do not run', async (t) => {
  const here = await scene();
  const broken = {
    name: '002_broken',
    sql: 'create table half ();\ninsert into notes values (2);\nselect 1 +\n  nonsense;',
  };
  const { status, body } = await here.push([first, broken, { name: '003', sql: 'create table never ()' }]);
  t.is(status, 400);
  t.is(body.code, '42703');
  t.is(body.message, 'column "nonsense" does not exist');
  const position = broken.sql.indexOf('nonsense') + 1;
  t.deepEqual(body.details, {
    migration: '002_broken',
    step: 2,
    position,
    line: 4,
    detail: null,
    applied: ['001_notes'],
  });
  t.deepEqual(await names(here), ['001_notes']);
  t.deepEqual(
    await here.query(
      `select count(*)::int as n, to_regclass('half')::text as half, to_regclass('never')::text as never from notes`,
    ),
    [{ n: 1, half: null, never: null }],
  );
});

test('positions count characters, not bytes or UTF-16 units', async (t) => {
  const { push } = await scene();
  const { body } = await push([{ name: 'x', sql: `select '🦊é' as "ü";\nselect wrong` }]);
  t.is(body.code, '42703');
  t.deepEqual([body.details.position, body.details.line], ['select \'🦊é\' as "ü";\nselect '.length - 1 + 1, 2]);
});

const refused: Readonly<Record<string, readonly [sql: string, code: string, hint: RegExp | null]>> = {
  'a COMMIT': ['create table t (); commit; create table u ()', '0A000', /one transaction already/],
  'a ROLLBACK and a BEGIN': [
    'create table t (); rollback; begin; create table u ()',
    '0A000',
    /one transaction already/,
  ],
  'a savepoint': ['create table t (); savepoint s', '0A000', /one transaction already/],
  'a COMMIT in a DO block': ['do $$ begin create table t (); commit; end $$', '2D000', /one transaction already/],
  'an index built concurrently': [
    'create table t (a int); create index concurrently on t (a)',
    '25001',
    /CONCURRENTLY/,
  ],
  'a VACUUM': ['create table t (); vacuum', '25001', /cannot run in one/],
  'COPY from the client': ['create table t (a int); copy t from stdin', '0A000', /INSERT/],
  'SELECT INTO': ['select 1 as a into t', '0A000', /CREATE TABLE/],
  'a syntax error': ['create table t (); creat table u ()', '42601', null],
  'another owner’s role': ['create table t (); set role anon', '42501', null],
  'a deferred constraint that does not hold': [
    'create table t (id int primary key); create table u (t int references t deferrable initially deferred); insert into u values (1)',
    '23503',
    null,
  ],
  'a division by zero in a function': [
    'create function f() returns int language sql as $$ select 1 / 0 $$; select f()',
    '22012',
    null,
  ],
};

for (const [what, [sql, code, hint]] of Object.entries(refused)) {
  test(`${what} fails, and nothing of the step stays`, async (t) => {
    const here = await scene();
    const { status, body, text } = await here.push([{ name: 'step', sql }]);
    t.is(status, 400, text);
    t.is(body.code, code, text);
    if (hint !== null) t.regex(body.hint, hint);
    t.deepEqual(await names(here), []);
    t.deepEqual(await here.query(`select to_regclass('t')::text as t, to_regclass('u')::text as u`), [
      { t: null, u: null },
    ]);
  });
}

test('what a step sets does not reach the next one, nor the record', async (t) => {
  const here = await scene();
  const { status, text } = await here.push([
    {
      name: 'sets',
      sql: `set search_path = nowhere; set statement_timeout = 5000; create temporary table applied (name text);
        prepare kept as select 1; listen kept; declare cursed cursor with hold for select 1`,
    },
    {
      name: 'next',
      sql: `create table here as select current_setting('statement_timeout') as timeout, to_regclass('pg_temp.applied')::text as kept,
        (select count(*)::int from pg_prepared_statements) + (select count(*)::int from pg_cursors where is_holdable)
          + (select count(*)::int from pg_listening_channels()) as others`,
    },
  ]);
  t.is(status, 200, text);
  t.deepEqual(await names(here), ['sets', 'next']);
  t.deepEqual(await here.query('select * from public.here'), [{ timeout: '1min', kept: null, others: 0 }]);
});

test('of ten who push the same steps at once, each step is applied by one', async (t) => {
  const here = await scene();
  const steps = [first, second, { name: '003', sql: 'create table third ()' }];
  const answers = await Promise.all(Array.from({ length: 10 }, () => here.push(steps)));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  const applied = answers.flatMap(({ body }) => body.applied as string[]);
  t.deepEqual(applied.toSorted(), ['001_notes', '002_more', '003']);
  t.deepEqual(await names(here), ['001_notes', '002_more', '003']);
});

test('a dry run finds what fails, and keeps nothing', async (t) => {
  const here = await scene();
  const dry = { dry_run: true };
  t.deepEqual((await here.push([first, second], dry)).body, {
    applied: ['001_notes', '002_more'],
    skipped: [],
    dry_run: true,
  });
  const failed = await here.push([first, { name: 'bad', sql: 'select * from nobody' }], dry);
  t.is(failed.body.code, '42P01');
  t.deepEqual([failed.status, failed.body.details.step, failed.body.details.applied], [400, 2, []]);
  t.deepEqual(await names(here), []);
  t.deepEqual(await here.query(`select to_regclass('notes')::text as found`), [{ found: null }]);
});

test('the record cannot be changed, and other roles cannot write it', async (t) => {
  const here = await scene();
  await here.push([first]);
  for (const sql of [
    'delete from plinth_migrations.applied',
    `update plinth_migrations.applied set checksum = ''`,
    `insert into plinth_migrations.applied (name, checksum, duration_ms) values ('x', '', 0)`,
    'drop table plinth_migrations.applied',
    'alter function plinth_migrations.record(text, text, int) volatile',
  ])
    t.is(await sqlStateOf(here.query(sql)), '42501', sql);
  for (const role of ['service', 'reader', 'api'] as const) {
    const login = await tenantLogin(platform(), here.project.id, role);
    const record = asTenant(login, (client) => client.query(`select plinth_migrations.record('forged', '', 0)`));
    t.is(await sqlStateOf(record), '42501', role);
  }
});

const invalid: Readonly<Record<string, unknown>> = {
  'no list': undefined,
  'an object in place of the list': {},
  'a step without a name': [{ sql: 'select 1' }],
  'a step without SQL': [{ name: 'a' }],
  'an unknown field': [{ name: 'a', sql: '', extra: 1 }],
  'a name of several lines': [{ name: 'a\nb', sql: '' }],
  'a name with space around it': [{ name: ' a', sql: '' }],
  'an empty name': [{ name: '', sql: '' }],
  'a NUL in the SQL': [{ name: 'a', sql: 'select \0' }],
  'SQL that is no text': [{ name: 'a', sql: 5 }],
  'the same name twice': [
    { name: 'a', sql: 'select 1' },
    { name: 'a', sql: 'select 1' },
  ],
  'a checksum of other SQL': [{ name: 'a', sql: 'select 1', checksum: '0'.repeat(64) }],
  'a checksum that is none': [{ name: 'a', sql: 'select 1', checksum: 'md5' }],
  'too many steps': Array.from({ length: 1001 }, (_, index) => ({ name: `s${index}`, sql: '' })),
};

const isInvalid = (t: ExecutionContext, { status, body, text }: Answer): void => {
  t.is(status, 400, text);
  t.is(body.code, 'validation_failed');
};

test('lists that are none are refused whole', async (t) => {
  const here = await scene();
  for (const [what, migrations] of Object.entries(invalid)) {
    await t.notThrowsAsync(async () => isInvalid(t, await here.push(migrations)), what);
  }
  isInvalid(t, await here.push([], { dry_run: 'yes' }));
  isInvalid(t, await here.list('?limit=201'));
  t.deepEqual((await here.push([])).body, { applied: [], skipped: [], dry_run: false });
  t.deepEqual((await here.list()).body, { migrations: [], total: 0 });
});
