import test from 'ava';
import type { Client } from 'pg';
import { foldCounters } from '#domain/database/usage.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { asOwner, countOf, projectWith } from './limits-scene.ts';

const platform = usePlatform(test);

const tablesOf = (project: TestProject): Promise<number> =>
  asOwner(platform(), project, (owner) => countOf(owner, `pg_tables where schemaname in ('public', 'own')`));

const statesOf = (project: TestProject, statements: readonly string[]): Promise<(string | null)[]> =>
  Promise.all(statements.map((sql) => asOwner(platform(), project, (owner) => sqlStateOf(owner.query(sql)))));

const limited = 'PLL01';
/** The transaction cannot see what others have done meanwhile. */
const again = '40001';

test('of sixteen tables that are made at once as many are made as the plan allows', async (t) => {
  const project = await projectWith(platform(), { tables: 10 });
  for (const round of [1, 2]) {
    const made = Array.from({ length: 16 }, (_, n) => `create table t_${round}_${n} (x int)`);
    const states = await statesOf(project, made);
    t.deepEqual(
      [await tablesOf(project), states.filter((state) => state !== null && state !== limited)],
      [10, []],
      `round ${round}`,
    );
    // As many as were made are gone again, and can be made again.
    const dropped = made
      .filter((_sql, n) => states[n] === null)
      .map((sql) => sql.replace(/create (.*) \(.*/, 'drop $1'));
    t.deepEqual(
      await statesOf(project, dropped),
      Array.from({ length: 10 }, () => null),
    );
  }
});

test('transactions that make several tables each stay within the limit together', async (t) => {
  const project = await projectWith(platform(), { tables: 10 });
  const states = await statesOf(
    project,
    Array.from(
      { length: 6 },
      (_, n) => `begin; create table a_${n} (x int); create table b_${n} (x int); create table c_${n} (x int); commit`,
    ),
  );
  const made = states.filter((state) => state === null).length;
  t.is(await tablesOf(project), made * 3);
  t.true(made >= 1 && made <= 3, String(states));
  // Two that made some each and count at the same time would wait for each other: the server ends one.
  t.deepEqual(
    states.filter((state) => ![null, limited, '40P01'].includes(state)),
    [],
  );
});

test('tables that a transaction drops and gets back by its rollback make no room for others', async (t) => {
  const project = await projectWith(platform(), { tables: 5 });
  await asOwner(platform(), project, async (owner) => {
    for (const n of [1, 2, 3, 4, 5]) await owner.query(`create table t_${n} (x int)`);
    t.is(await sqlStateOf(owner.query('create table more (x int)')), limited);
    await owner.query('begin; drop table t_1, t_2, t_3, t_4; create table other (x int); rollback');
    t.is(await sqlStateOf(owner.query('create table more (x int)')), limited);
    await owner.query('begin; drop table t_1; create table other (x int); commit');
  });
  t.is(await tablesOf(project), 5);
});

test('at repeatable read no more tables are made than the plan allows', async (t) => {
  const project = await projectWith(platform(), { tables: 5 });
  await asOwner(platform(), project, async (late) => {
    await late.query('begin isolation level repeatable read; select 1');
    await statesOf(
      project,
      [1, 2, 3, 4, 5].map((n) => `create table t_${n} (x int)`),
    );
    t.is(await sqlStateOf(late.query('create table late (x int)')), again);
    await late.query('rollback');
    t.is(await sqlStateOf(late.query('create table late (x int)')), limited);
  });
  await statesOf(project, ['drop table t_1, t_2, t_3']);
  await asAdmin(project.dbName, foldCounters);
  await asOwner(platform(), project, async (owner) => {
    await owner.query('begin isolation level repeatable read; create table more (x int); commit');
  });
  t.is(await tablesOf(project), 3);
});

const partitioned = async (client: Client): Promise<void> => {
  await client.query('create table p (x int) partition by list (x)');
};

test('tables that are filled and attached as partitions are within the limit of their table', async (t) => {
  const project = await projectWith(platform(), { rows: 100 });
  await asOwner(platform(), project, async (owner) => {
    await partitioned(owner);
    for (const n of [1, 2]) {
      await owner.query(`create table part_${n} (x int not null)`);
      await owner.query(`insert into part_${n} select ${n} from generate_series(1, 60)`);
    }
    await owner.query('alter table p attach partition part_1 for values in (1)');
    t.is(await sqlStateOf(owner.query('alter table p attach partition part_2 for values in (2)')), limited);
    t.is(await countOf(owner, 'p'), 60);
    // Detached and attached again nothing is gained.
    await owner.query('alter table p detach partition part_1');
    await owner.query('alter table p attach partition part_1 for values in (1)');
    t.is(await sqlStateOf(owner.query('insert into p select 1 from generate_series(1, 50)')), limited);
    await owner.query('delete from part_2 where ctid in (select ctid from part_2 limit 30)');
    await owner.query('alter table p attach partition part_2 for values in (2)');
    t.is(await countOf(owner, 'p'), 90);
  });
});

test('tables that are filled and then inherit are within the limit of their parent', async (t) => {
  const project = await projectWith(platform(), { rows: 100 });
  await asOwner(platform(), project, async (owner) => {
    await owner.query('create table parent (x int)');
    for (const n of [1, 2]) {
      await owner.query(`create table child_${n} (x int)`);
      await owner.query(`insert into child_${n} select ${n} from generate_series(1, 60)`);
    }
    await owner.query('alter table child_1 inherit parent');
    t.is(await sqlStateOf(owner.query('alter table child_2 inherit parent')), limited);
    await owner.query('alter table child_1 no inherit parent');
    await owner.query('alter table child_2 inherit parent');
  });
});

test('partitions below different parents of one table, attached at once, are within its limit', async (t) => {
  const project = await projectWith(platform(), { rows: 100 });
  const parts = [1, 2, 3, 4];
  await asOwner(platform(), project, async (owner) => {
    await partitioned(owner);
    for (const n of parts) {
      await owner.query(`create table middle_${n} partition of p for values in (${n}) partition by list (x)`);
      await owner.query(`create table part_${n} (x int not null)`);
      await owner.query(`insert into part_${n} select ${n} from generate_series(1, 60)`);
    }
  });
  const states = await statesOf(
    project,
    parts.map((n) => `alter table middle_${n} attach partition part_${n} for values in (${n})`),
  );
  t.deepEqual(
    states.filter((state) => state !== null),
    [limited, limited, limited],
  );
  await asOwner(platform(), project, async (late) => {
    await late.query('alter table p detach partition middle_1');
    await late.query('begin isolation level repeatable read; select 1');
    await asOwner(platform(), project, (owner) => owner.query('create table aside (x int)'));
    t.is(await sqlStateOf(late.query('alter table p attach partition middle_1 for values in (1)')), again);
    await late.query('rollback');
  });
});

test('partitions that are detached count as tables', async (t) => {
  const project = await projectWith(platform(), { tables: 5 });
  await asOwner(platform(), project, async (owner) => {
    await partitioned(owner);
    for (const n of [1, 2, 3, 4, 5, 6]) await owner.query(`create table part_${n} partition of p for values in (${n})`);
    for (const n of [1, 2, 3, 4]) await owner.query(`alter table p detach partition part_${n}`);
    t.is(await sqlStateOf(owner.query('alter table p detach partition part_5')), limited);
    t.is(await sqlStateOf(owner.query('create table more (x int)')), limited);
    await owner.query('alter table p attach partition part_1 for values in (1)');
    await owner.query('drop table part_2');
    await owner.query('create table more (x int)');
  });
});
