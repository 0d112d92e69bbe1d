import test from 'ava';
import type { ClientBase } from 'pg';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { type Bound, type PipelineLimits, runPipeline } from '#lib/postgres/pipeline.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { tenantDbOf, useDataScene } from './scene.ts';

const scene = useDataScene(test);
const limits: PipelineLimits = { maxBytes: 1024 * 1024, timeoutMs: 30_000 };
const sql = (text: string, ...params: (string | null)[]): Bound => ({ text, params });

const onConnection = async <T>(work: (client: ClientBase) => Promise<T>): Promise<T> => {
  const tenantDb = tenantDbOf(scene().platform);
  try {
    return await tenantDb.use(scene().project.id, 'owner', work);
  } finally {
    await tenantDb.close();
  }
};

test('several statements are one transaction: all of them, or none', async (t) => {
  await scene().asOwner('create table together (n int primary key)');
  const insert = 'insert into together values ($1)';
  await onConnection(async (client) => {
    await runPipeline(client, [sql(insert, '1'), sql(insert, '2')], limits);
    t.is(await sqlStateOf(runPipeline(client, [sql(insert, '3'), sql(insert, '1')], limits)), '23505');
    const [rows] = await runPipeline(client, [sql('select n from together order by n')], limits);
    t.deepEqual(rows, [['1'], ['2']]);
  });
});

test('the rows of each statement come by themselves, exactly as the server writes them', async (t) => {
  await onConnection(async (client) => {
    const answers = await runPipeline(
      client,
      [sql('select $1::bigint, null', '9007199254740995'), sql('select from pg_class where false'), sql(`select 'x'`)],
      limits,
    );
    t.deepEqual(answers.slice(0, 3), [[['9007199254740995', null]], [], [['x']]]);
  });
});

test('a prepared statement takes all texts as they are, the second time as the first', async (t) => {
  const texts = ['', 'ü €', '𝒳\n"\\', 'x'.repeat(100_000), null];
  const statement = sql('select $1::text, $2::text, $3::text, $4::text, $5::text', ...texts);
  await onConnection(async (client) => {
    for (const time of ['first', 'second', 'third']) {
      const answers = await runPipeline(client, [statement, sql('select $1::text', time), statement], limits);
      t.deepEqual(answers.slice(0, 3), [[texts], [[time]], [texts]]);
    }
  });
});

test('a server that does not answer in time is left', async (t) => {
  await t.throwsAsync(
    onConnection((client) => runPipeline(client, [sql('select pg_sleep(60)')], { ...limits, timeoutMs: 10 })),
    { message: /no answer came in time/ },
  );
});

test('settings for the transaction are gone with it', async (t) => {
  await onConnection(async (client) => {
    const setting = `select set_config('my.own', 'here', true)`;
    const [, seen] = await runPipeline(client, [sql(setting), sql(`select current_setting('my.own', true)`)], limits);
    t.deepEqual(seen, [['here']]);
    const [after] = await runPipeline(client, [sql(`select current_setting('my.own', true)`)], limits);
    t.deepEqual(after, [['']]);
  });
});

test('statements are prepared once, and at most a hundred of them', async (t) => {
  await onConnection(async (client) => {
    const count = async (): Promise<number> => {
      const [rows] = await runPipeline(client, [sql('select count(*) from pg_prepared_statements')], limits);
      return Number(rows?.[0]?.[0]);
    };
    for (let n = 0; n < 3; n += 1) await runPipeline(client, [sql('select 1')], limits);
    t.is(await count(), 2);
    for (let n = 0; n < 300; n += 1) await runPipeline(client, [sql(`select ${n}`)], limits);
    t.is(await count(), 100);
    await runPipeline(client, [sql(`select '${'x'.repeat(20_000)}'`)], limits);
    t.is(await count(), 100);
  });
});

test('a statement that fails is known as what it is: prepared, or not', async (t) => {
  await onConnection(async (client) => {
    for (let n = 0; n < 3; n += 1) {
      t.is(await sqlStateOf(runPipeline(client, [sql('select 1'), sql('select nonsense')], limits)), '42703');
      t.is(await sqlStateOf(runPipeline(client, [sql('select $1::int', 'x')], limits)), '22P02');
      t.deepEqual((await runPipeline(client, [sql('select $1::int', '5')], limits))[0], [['5']]);
    }
  });
});

test('what SQL of the project deallocates is prepared again', async (t) => {
  await onConnection(async (client) => {
    await runPipeline(client, [sql('select 7')], limits);
    await client.query('deallocate all');
    t.deepEqual((await runPipeline(client, [sql('select 7')], limits))[0], [['7']]);
  });
});

test('more bytes than are taken cut the connection, and others go on', async (t) => {
  await t.throwsAsync(
    onConnection((client) => runPipeline(client, [sql(`select repeat('x', 2000000)`)], limits)),
    { instanceOf: AnswerTooLarge },
  );
  t.deepEqual(await onConnection(async (client) => (await runPipeline(client, [sql('select 1')], limits))[0]), [['1']]);
});

test('COPY takes nothing and hangs nobody', async (t) => {
  await scene().asOwner('create table copied (n int)');
  await onConnection(async (client) => {
    t.truthy(await sqlStateOf(runPipeline(client, [sql('copy copied from stdin')], limits)));
    t.deepEqual((await runPipeline(client, [sql('select 1')], limits))[0], [['1']]);
  });
});
