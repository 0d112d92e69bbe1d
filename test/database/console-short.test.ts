import { readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import test from 'ava';
import { beginsShort } from '#domain/database/console/statement-words.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('there is a project', async () => {
  scene = await openScene(platform());
});

/** Sessions of the console in which a statement with these words runs, with its 30 s and their grace. */
const running = (words: string): Promise<number[]> =>
  asAdmin(scene.project.dbName, async (admin) => {
    const { rows } = await admin.query<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database() and state = 'active'
         and application_name = 'plinth fence 32 s' and query like $1 and pid <> pg_backend_pid()`,
      [`%${words}%`],
    );
    return rows.map(({ pid }) => pid);
  });

const end = (pids: readonly number[]): Promise<unknown> =>
  asAdmin(scene.project.dbName, (admin) =>
    admin.query('select pg_terminate_backend(p) from unnest($1::int[]) p', [pids]),
  );

test.serial('a short statement does not wait for the reports of a colleague', async (t) => {
  let ended = 0;
  const reports = Array.from({ length: 3 }, async (_, index) => {
    await scene.query(`select pg_sleep(25), ${index}`);
    ended += 1;
  });
  await until(async () => (await running('pg_sleep(25)')).length > 0);
  for (let n = 0; n < 5; n += 1) t.deepEqual((await scene.run('select 1 as one')).rows, [{ one: 1 }]);
  t.is(ended, 0);
  await until(async () => {
    await end(await running('pg_sleep(25)'));
    return ended === reports.length;
  });
});

test.serial('what takes longer than a short statement takes effect once, and is answered as ever', async (t) => {
  await scene.run('create table done (at timestamptz default clock_timestamp())');
  const slow = `with nap as (select pg_sleep(2)) insert into done select from nap returning 1 as made`;
  for (let n = 1; n <= 2; n += 1) {
    t.deepEqual((await scene.run(slow)).rows, [{ made: 1 }]);
    t.deepEqual((await scene.run('select count(*)::int as n from done')).rows, [{ n }]);
  }
  t.false(beginsShort(scene.project.id, slow));
  t.true(beginsShort(scene.project.id, 'select 1'));
});

test('what may commit before it ends does not begin where it may be begun again', (t) => {
  const repeatable = ['select 1', 'insert into t values (1)', '-- do\nupdate t set a = 1', 'create index i on t (a)'];
  for (const sql of repeatable) t.true(beginsShort('p', sql), sql);
  const others = [
    'call p()',
    'DO $$ begin end $$',
    '/* x */ vacuum t',
    'create index concurrently i on t (a)',
    'reindex table t',
    `${'-- x\n'.repeat(10_000)} call p()`,
  ];
  for (const sql of others) t.false(beginsShort('p', sql), sql);
});

/** The right of this process over that one: null where it is not of this machine, or another's. */
const priorityOf = (pid: number): number | null => {
  try {
    const priority = getPriority(pid);
    setPriority(pid, priority);
    return priority;
  } catch {
    return null;
  }
};

/** The kernel's weight of that session: null without autogroups, or where it is not of this machine. */
const sessionPriorityOf = (pid: number): number | null => {
  try {
    return Number(/nice (-?\d+)/.exec(readFileSync(`/proc/${pid}/autogroup`, 'latin1'))?.[1]);
  } catch {
    return null;
  }
};

test.serial('a short statement runs at a lower priority from its beginning', async (t) => {
  const mayLower = await asAdmin(scene.project.dbName, async (admin) => {
    await admin.query(`create function public.process_stat() returns text language sql security definer
      as $$ select pg_read_file('/proc/self/stat') $$`);
    const { rows } = await admin.query<{ pid: number }>('select pg_backend_pid() as pid');
    return priorityOf(rows[0]?.pid ?? 0) !== null;
  });
  const [row] = (await scene.run('select public.process_stat() as stat')).rows as { stat: string }[];
  // The fields after the program's name, which is in brackets: nice is the 19th field of all.
  const nice = Number(row?.stat.replace(/^.*\) /, '').split(' ')[16]);
  t.is(nice, mayLower ? 10 : 0);
});

test.serial('a long statement runs at a lower priority where the server is this machine’s', async (t) => {
  const report = scene.query('select pg_sleep(20) as priority');
  await until(async () => {
    const [pid] = await running('as priority');
    return pid !== undefined && [10, null].includes(priorityOf(pid)) && [10, null].includes(sessionPriorityOf(pid));
  });
  await end(await running('as priority'));
  t.not((await report).status, 200);
});

test.serial('so does one of the data API once it has taken long, and its session is not used again', async (t) => {
  await scene.run(
    'create function naps() returns int language plpgsql as $$ begin loop null; end loop; return 1; end $$',
  );
  const requested = platform().client.call('POST', '/rest/v1/rpc/naps', { key: scene.project.key, body: {} });
  const naps = `select pid from pg_stat_activity where datname = current_database() and state = 'active'
    and query like '%naps%' and pid <> pg_backend_pid()`;
  const pids = (): Promise<number[]> =>
    asAdmin(scene.project.dbName, async (admin) =>
      (await admin.query<{ pid: number }>(naps)).rows.map(({ pid }) => pid),
    );
  await until(async () => {
    const [pid] = await pids();
    return pid !== undefined && [10, null].includes(priorityOf(pid));
  });
  const [pid = 0] = await pids();
  await asAdmin(scene.project.dbName, (admin) => admin.query('select pg_cancel_backend($1)', [pid]));
  t.is((await requested).status, 504);
  if (priorityOf(pid) === 10) {
    const isThere = 'select count(*)::int as n from pg_stat_activity where pid = $1';
    await until(() =>
      asAdmin(scene.project.dbName, async (admin) => (await admin.query(isThere, [pid])).rows[0].n === 0),
    );
  }
});
