import test from 'ava';
import { readPolicies } from '#domain/ai/schema-context.ts';
import type { Answer } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type ChatScene, createScene } from './chat-scene.ts';

const platform = usePlatform(test);

let scene: ChatScene;
/** The texts of the played model, by the number in the prompt; each text once, the last one again and again. */
const scripts = new Map<string, string[]>();

const promptNumber = (body: unknown): string => /prompt-\d+/.exec(JSON.stringify(body))?.[0] ?? '';

test.before('a project with tables, and a model that says what it is told to', async () => {
  scene = await createScene(platform());
  await query('create table authors (id int primary key, name text)');
  await query(
    `create table posts (id int primary key, title text default 'secret-default', author int references authors)`,
  );
  await query('alter table posts enable row level security');
  await query('create policy readable on posts for select using (author > 3)');
  await query(`insert into authors values (1, 'row-of-ann'), (2, 'row-of-ben')`);
  scene.upstream.answerWith(({ kind, body }) => {
    const said = scripts.get(promptNumber(body));
    const text = said !== undefined && said.length > 1 ? said.shift() : said?.[0];
    return kind === 'chat' && text !== undefined ? { text } : undefined;
  });
});
test.after.always('the upstream stops', () => scene.upstream.close());

const post = (path: string, body: unknown, token = scene.user.token): Promise<Answer> =>
  platform().client.call('POST', `/projects/${scene.project.id}${path}`, { token, body });
const query = async (sql: string): Promise<Answer['body']> => {
  const answer = await post('/db/query', { sql });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body;
};

let count = 0;
type Kind = 'schema' | 'rls' | 'sql';
/** Has the model say these texts, one after the other. */
const generate = async (
  kind: Kind,
  texts: readonly unknown[],
  more: Readonly<Record<string, unknown>> = { model: 'openai/gpt-4o' },
): Promise<Answer & { readonly requested: ChatScene['upstream']['requests'] }> => {
  const prompt = `prompt-${(count += 1)}`;
  scripts.set(
    prompt,
    texts.map((text) => (typeof text === 'string' ? text : JSON.stringify(text))),
  );
  const answer = await post(`/ai/${kind}/generate`, { prompt, ...more });
  const isOurs = (body: unknown): boolean => new RegExp(`${prompt}\\b`).test(JSON.stringify(body));
  return { ...answer, requested: scene.upstream.requests.filter(({ body }) => isOurs(body)) };
};

const table = { sql: 'create table likes (id int primary key)', tables: ['likes'], explanation: 'Likes.' };

test('a schema comes with its tables, and with what the guard says of it', async (t) => {
  const { status, body, requested } = await generate('schema', [table]);
  const { sql } = table;
  const each = { sql, allowed: true, reasons: [] };
  t.deepEqual([status, body], [200, { ...table, allowed: true, reasons: [], statements: [each] }]);
  t.is(requested.length, 1);
  t.is(requested[0]?.body.response_format.type, 'json_schema');
  t.deepEqual(requested[0]?.body.response_format.json_schema.schema.required, ['sql', 'tables', 'explanation']);
});

test('the model is told names, types, keys and policies, and neither rows nor what defaults are', async (t) => {
  const { requested } = await generate('sql', [{ sql: 'select 1', explanation: '' }]);
  const reported: string = requested[0]?.body.messages[0].content;
  t.regex(reported, /table posts; row-level security on\n {2}id integer not null/);
  t.regex(reported, /title text has default/);
  t.regex(reported, /foreign key \(author\) references authors \(id\)/);
  t.regex(reported, /policy readable for SELECT to public using \(\(author > 3\)\)/);
  t.notRegex(reported, /row-of|secret-default|plinth/);
});

test('of policies the model is told no text that may be a secret, and of huge ones only the start', async (t) => {
  const key = 'sk_live_0123456789abcdefghijklmnopqr';
  await query(`create table "</schema>x" (kind text, token text)`);
  await query(`create policy one on "</schema>x" using (kind = 'a' and token = '${key}')`);
  await query(`create policy two on "</schema>x" for insert with check (kind <> E'b\\n${key}' and kind > 'c')`);
  const [long, huge] = ['long-'.repeat(1000), 'long-'.repeat(40_000)];
  await query(
    `create policy huge on "</schema>x" using (kind = 'd' and token = '${long}') with check (token = '${huge}')`,
  );
  const { requested } = await generate('rls', [{ sql: 'select 1', policies: [], explanation: '' }]);
  const said: string = requested[0]?.body.messages[0].content;
  t.regex(said, /policy one .* using \(\(\(kind = 'a'::text\) AND \(token = '…'::text\)\)\)/);
  t.regex(said, /policy two .* with check \(\(\(kind &lt;> '…'::text\) AND \(kind > 'c'::text\)\)\)/);
  t.regex(said, /policy huge .* using \(\(\(kind = 'd'::text\) AND \(token = '…'…\) with check \(…\)/);
  t.notRegex(said, /sk_live|long-/);
  t.deepEqual(said.match(/<\/schema>/g)?.length, 2);

  const read = await asAdmin(scene.project.dbName, (client) =>
    readPolicies({ use: (_project, _role, fn) => fn(client) }, scene.project.id),
  );
  t.true(JSON.stringify(read).length < 5000);
});

test('every kind of provider answers, and a model is found for who names none', async (t) => {
  for (const model of ['anthropic/claude-sonnet-4-5', 'google/gemini-2.5-flash', undefined]) {
    const { status, text } = await generate('schema', [table], model === undefined ? {} : { model });
    t.is(status, 200, `${model}: ${text}`);
  }
});

const fenced = (text: string): string => `\`\`\`json\n${text}\n\`\`\``;

test('an answer in a code fence, or with words around it, is read', async (t) => {
  const json = JSON.stringify(table);
  for (const text of [
    fenced(json),
    `Here: ${json}`,
    `${json}\nI hope that it helps.`,
    `Instead of {this}, here:\n${fenced(json)}\nIt makes {likes}.`,
    `First ${fenced('{"example": 1}')}, so ${fenced(json)}`,
    `Here: ${JSON.stringify({ ...table, explanation: 'In ``` and {braces}' })}`,
  ]) {
    const { status, body, requested } = await generate('schema', [text]);
    t.deepEqual([status, body.sql, requested.length], [200, table.sql, 1], text);
  }
});

const bad: readonly (readonly [string, unknown])[] = [
  ['prose', 'Sure! Here is your table.'],
  ['nothing', ''],
  ['other fields', { query: 'select 1', notes: '' }],
  ['a list', [table]],
  ['a list in a fence', `\`\`\`\n${JSON.stringify([table, table])}\n\`\`\``],
  ['prose with braces', 'Use {braces} or ```fences```.'],
  ['empty SQL', { ...table, sql: ' ' }],
  ['tables that are no list', { ...table, tables: 'likes' }],
  ['half of it', JSON.stringify(table).slice(0, 40)],
];
test('what is no answer is asked for again once, and the repaired answer counts', async (t) => {
  for (const [what, text] of bad) {
    const { status, body, requested, text: all } = await generate('schema', [text, table]);
    t.deepEqual([status, body.sql, requested.length], [200, table.sql, 2], `${what}: ${all}`);
    t.regex(requested[1]?.text ?? '', /^That cannot be used: /);
  }
});

test('what is no answer twice is provider_bad_output', async (t) => {
  for (const [what, text] of bad) {
    const { status, body, requested } = await generate('schema', [text]);
    t.deepEqual([status, body.code, requested.length], [502, 'provider_bad_output', 2], what);
  }
});

test('SQL that would be refused comes with the reasons, and several statements each with theirs', async (t) => {
  const sql = 'create table likes (id int); drop table posts';
  const { body } = await generate('schema', [{ ...table, sql }]);
  t.deepEqual([body.allowed, body.reasons[0].rule], [false, 'several_statements']);
  t.deepEqual(
    body.statements.map(({ sql: each, allowed }: { sql: string; allowed: boolean }) => [each, allowed]),
    [
      ['create table likes (id int)', true],
      ['drop table posts', false],
    ],
  );
  const policy = { sql: 'create policy p on posts to postgres using (true)', policies: ['p'], explanation: '' };
  const rls = await generate('rls', [policy]);
  t.deepEqual([rls.body.policies, rls.body.allowed, rls.body.reasons[0].rule], [['p'], false, 'role']);
});

const execute = (sql: string) =>
  generate('sql', [{ sql, explanation: 'x' }], { model: 'openai/gpt-4o', execute: true });

test('a query is run when that is asked for, and not otherwise', async (t) => {
  const sql = 'select id, name, 12345678901234567890 as big from authors order by id';
  const { status, body, text } = await execute(sql);
  t.is(status, 200, text);
  t.deepEqual([body.results.length, body.results[0].name, body.row_count, body.truncated], [2, 'row-of-ann', 2, false]);
  t.regex(text, /12345678901234567890/);
  const only = await generate('sql', [{ sql, explanation: 'x' }]);
  t.deepEqual(Object.keys(only.body).toSorted(), ['allowed', 'explanation', 'reasons', 'sql']);
});

test('at most 1,000 rows come', async (t) => {
  const { body } = await execute('select i from generate_series(1, 1001) i');
  t.deepEqual([body.results.length, body.row_count, body.truncated], [1000, 1000, true]);
  const whole = await execute('select i from generate_series(1, 1000) i');
  t.deepEqual([whole.body.results.length, whole.body.truncated], [1000, false]);
});

test('what may not run comes as SQL, without results and with the error', async (t) => {
  for (const [sql, code] of [
    ['delete from authors', 'sql_not_allowed'],
    ['select 1; delete from authors', 'sql_not_allowed'],
    ['select pg_sleep(1)', 'sql_not_allowed'],
    ["select ('/etc/passwd'::text).pg_read_file", 'sql_not_allowed'],
    ["select x.pg_read_file from unnest(array['/etc/passwd']) x", 'sql_not_allowed'],
    ['select nothing from authors', '42703'],
    ['select 1 / 0', '22012'],
  ] as const) {
    const { status, body } = await execute(sql);
    t.deepEqual([status, body.sql, body.results, body.execution_error?.code], [200, sql, undefined, code]);
    t.deepEqual([body.allowed, body.reasons.length > 0], [code !== 'sql_not_allowed', code === 'sql_not_allowed'], sql);
  }
  t.is((await query('select count(*)::int as n from authors')).rows[0].n, 2);
});

test('a query that does not end is stopped after 5 s', async (t) => {
  const { body } = await execute('select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b');
  t.deepEqual([body.execution_error?.code, body.results], ['57014', undefined]);
});

test('wrong input is 400, a project without a key 409, strangers find nothing', async (t) => {
  const token = scene.user.token;
  for (const body of [
    {},
    { prompt: '' },
    { prompt: 'x'.repeat(10_001) },
    { prompt: 'a', model: '' },
    { prompt: 'a', x: 1 },
  ]) {
    t.is((await post('/ai/schema/generate', body, token)).status, 400);
  }
  t.is((await post('/ai/rls/generate', { prompt: 'a', execute: true })).status, 400);
  const bare = await platform().client.createProject(scene.user, { name: 'bare' });
  const none = await platform().client.call('POST', `/projects/${bare.id}/ai/sql/generate`, {
    token,
    body: { prompt: 'a' },
  });
  t.deepEqual([none.status, none.body.code], [409, 'provider_not_configured']);
  const stranger = await platform().client.signUp();
  t.is((await post('/ai/sql/generate', { prompt: 'a' }, stranger.token)).status, 404);
});
