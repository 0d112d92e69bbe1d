import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type ChatScene, createScene } from './chat-scene.ts';
import { endlessQueries, hostileQueries } from './sql-guard-hostile.ts';

const platform = usePlatform(test);

let scene: ChatScene;
/** The texts of the played model, by the number in the prompt. */
const written = new Map<string, string>();
const manyTables = `{"sql":"create table a (id int primary key)","explanation":"x","tables":[0${',0'.repeat(130_000)}]}`;

const post = (path: string, body: unknown) =>
  platform().client.call('POST', `/projects/${scene.project.id}${path}`, { token: scene.user.token, body });

const run = async (sql: string): Promise<unknown> => {
  const answer = await post('/db/query', { sql });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.rows;
};

test.before('a project with a canary, and a model that writes what it is told to', async () => {
  scene = await createScene(platform());
  await run('create table canary (id int generated always as identity primary key, note text)');
  await run("insert into canary (note) values ('alive'), ('well')");
  await run('create function intruder() returns int language sql volatile as $$ delete from canary returning 1 $$');
  scene.upstream.answerWith(({ kind, body }) => {
    if (kind === 'chat' && JSON.stringify(body).includes('many-tables')) return { text: manyTables };
    const sql = written.get(/prompt-\d+/.exec(JSON.stringify(body))?.[0] ?? '');
    return kind === 'chat' && sql !== undefined ? { text: JSON.stringify({ sql, explanation: 'x' }) } : undefined;
  });
});
test.after.always('the upstream stops', () => scene.upstream.close());

/** All that a statement of the project's own could have left behind. */
const traces = (): Promise<unknown> =>
  run(`select (select jsonb_agg(c order by id) from canary c) as rows, (select last_value from canary_id_seq) as sequence,
    (select jsonb_agg(relname::text order by relname) from pg_class where relnamespace = 'public'::regnamespace) as relations,
    (select count(*) from pg_proc where pronamespace = 'public'::regnamespace) as functions`);

test('a model that names a hundred thousand tables is told so once, and gives no usable answer', async (t) => {
  const answer = await post('/ai/schema/generate', { prompt: 'many-tables', model: 'openai/gpt-4o' });
  t.deepEqual([answer.status, answer.body.code], [502, 'provider_bad_output']);
  t.is(answer.body.details.problems.length, 1);
  t.regex(answer.body.details.problems[0], /^tables: .*1000/);
});

test('what a model writes to do harm is shown and not run, in whatever form it comes', async (t) => {
  const before = await traces();
  const hostile = [...hostileQueries, ...endlessQueries];
  t.true(hostile.length >= 60);
  for (const [n, [sql]] of hostile.entries()) {
    const prompt = `prompt-${n}`;
    written.set(prompt, sql);
    const { status, body } = await post('/ai/sql/generate', { prompt, model: 'openai/gpt-4o', execute: true });
    // An unusable answer does not reach the guard.
    if (status === 502) t.is(body.code, 'provider_bad_output', sql.slice(0, 80));
    else
      t.deepEqual(
        [status, body.results, body.execution_error?.code],
        [200, undefined, 'sql_not_allowed'],
        sql.slice(0, 80),
      );
  }
  t.deepEqual(await traces(), before);
});
