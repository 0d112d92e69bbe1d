import test, { type ExecutionContext } from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let hostile: DatabaseScene;
let neighbour: DatabaseScene;

test.before('two projects', async () => {
  [hostile, neighbour] = await Promise.all([openScene(platform()), openScene(platform())]);
  await neighbour.run('create table kept (id int primary key generated always as identity, text text)');
});

/** Asks for the neighbour's rows again and again while `work` goes on: every answer must be a good one. */
const besideNeighbour = async (t: ExecutionContext, work: () => Promise<void>): Promise<void> => {
  let isOver = false;
  const asking = (async () => {
    let asked = 0;
    do {
      const { key } = neighbour.project;
      const made = await platform().client.call('POST', '/v1/rest/kept', { key, body: { text: `${asked}` } });
      t.is(made.status, 201, made.text);
      asked += 1;
    } while (!isOver);
    return asked;
  })();
  await work().finally(() => {
    isOver = true;
  });
  t.true((await asking) > 0);
};

test.serial('a value of 400 MB is not taken, and a neighbour is served meanwhile', async (t) => {
  await besideNeighbour(t, async () => {
    const { status, body } = await hostile.query(`select repeat('x', 400000000)`);
    t.true([400, 503].includes(status), JSON.stringify(body));
  });
  t.deepEqual((await hostile.run('select 1 as one')).rows, [{ one: 1 }]);
});

test.serial('cursors, memory settings and lifted time-outs end with their call', async (t) => {
  await hostile.query('declare left_open cursor with hold for select generate_series(1, 1000000)');
  await hostile.query(`select set_config('work_mem', '2GB', false), set_config('statement_timeout', '0', false)`);
  const { rows } = await hostile.run(
    `select (select count(*) from pg_cursors where name = 'left_open')::int as cursors,
       current_setting('work_mem') <> '2GB' as small, current_setting('statement_timeout') <> '0' as timed`,
  );
  t.deepEqual(rows, [{ cursors: 0, small: true, timed: true }]);
});

test.serial('two statements in one, and commands of transactions, are refused', async (t) => {
  for (const sql of ['select 1; drop table if exists x', 'commit; select 1', 'begin', 'commit', 'rollback']) {
    const { status } = await hostile.query(sql);
    t.is(status, 400, sql);
  }
});
