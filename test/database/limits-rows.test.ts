import test from 'ava';
import { foldCounters } from '#domain/database/usage.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { asOwner, countOf, numbers, projectWith } from './limits-scene.ts';

const platform = usePlatform(test, { shared: true });

const refused = 'PLL01';

const inTable = async (work: Parameters<typeof asOwner>[2], columns = 'x int'): Promise<void> => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, async (client) => {
    await client.query(`create table t (${columns})`);
    await work(client);
  });
};

test('one writer fills a table to its last row, and not further', (t) =>
  inTable(async (client) => {
    for (let row = 0; row < 100; row += 1) await client.query('insert into t values (1)');
    const error = await t.throwsAsync(client.query('insert into t values (1)'));
    t.like(error, {
      code: refused,
      detail: 'limit=rows value=100',
      message: 'plan_limit_exceeded: public.t would have 101 rows; the plan allows 100 in each table',
    });
    t.is(await countOf(client, 't'), 100);
  }));

test('a statement that would go beyond the limit adds nothing', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(99)}`);
    t.is(await sqlStateOf(client.query(`insert into t ${numbers(2)}`)), refused);
    t.is(await countOf(client, 't'), 99);
    await client.query(`insert into t ${numbers(1)}`);
  }));

test('what was deleted makes room, also within the same transaction', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(100)}`);
    await client.query('begin');
    await client.query('delete from t where x <= 40');
    await client.query(`insert into t ${numbers(40)}`);
    t.is(await sqlStateOf(client.query(`insert into t values (1)`)), refused);
    await client.query('rollback');
    t.is(await sqlStateOf(client.query(`insert into t values (1)`)), refused);
    await client.query('delete from t where x = 1');
    await client.query(`insert into t values (1)`);
    t.is(await sqlStateOf(client.query(`insert into t values (1)`)), refused);
  }));

test('rolled-back rows and deletions do not count, nor do refused ones, however many', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(50)}`);
    for (let round = 0; round < 20; round += 1) {
      await client.query('begin');
      await client.query(`insert into t ${numbers(50)}`);
      await client.query('rollback');
      await client.query('begin; delete from t; rollback');
      t.is(await sqlStateOf(client.query(`insert into t ${numbers(51)}`)), refused);
    }
    await client.query(`insert into t ${numbers(50)}`);
    t.is(await sqlStateOf(client.query(`insert into t values (1)`)), refused);
  }));

test('savepoints that are rolled back give their rows back', (t) =>
  inTable(async (client) => {
    await client.query('begin');
    await client.query(`insert into t ${numbers(60)}`);
    await client.query('savepoint s');
    await client.query(`insert into t ${numbers(40)}`);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    await client.query('rollback to s');
    await client.query(`insert into t ${numbers(40)}`);
    await client.query('commit');
    t.is(await countOf(client, 't'), 100);
  }));

test('truncate begins anew', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(100)}`);
    await client.query('truncate t');
    await client.query(`insert into t ${numbers(100)}`);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
  }));

test('updates cost nothing, and a conflict that updates adds nothing', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(100)}`);
    await client.query('update t set x = x');
    const conflict = `insert into t values (1) on conflict (x) do`;
    await client.query(`${conflict} nothing`);
    await client.query(`${conflict} update set x = excluded.x`);
    await client.query(`merge into t using (values (5)) v (x) on t.x = v.x when matched then delete`);
    await client.query(`merge into t using (values (5)) v (x) on t.x = v.x when not matched then insert values (v.x)`);
    t.is(await sqlStateOf(client.query('insert into t values (101)')), refused);
  }, 'x int primary key'));

test('functions, CTEs and SELECT INTO are bound as well, and cascades make room', (t) =>
  inTable(async (client) => {
    await client.query(`create function fill(n int) returns void language plpgsql as
      $$ begin for i in 1..n loop insert into t values (i); end loop; end $$`);
    t.is(await sqlStateOf(client.query('select fill(101)')), refused);
    await client.query('select fill(100)');
    t.is(await sqlStateOf(client.query('with a as (insert into t values (101) returning x) select * from a')), refused);
    t.is(await sqlStateOf(client.query(`select x into too_many from generate_series(1, 101) x`)), refused);
    await client.query('create table child (t int references t on delete cascade)');
    await client.query('insert into child select x from t');
    await client.query('delete from t');
    await client.query('select fill(100)');
    await client.query('insert into child select x from t');
    t.is(await sqlStateOf(client.query('insert into child values (1)')), refused);
  }, 'x int primary key'));

test('a partitioned table counts as a whole, by whichever way its rows come and go', (t) =>
  inTable(async (client) => {
    await client.query('create table p (x int) partition by range (x)');
    await client.query('create table p1 partition of p for values from (0) to (100)');
    await client.query('create table p2 partition of p for values from (100) to (200)');
    await client.query('insert into p1 select 1 from generate_series(1, 60)');
    await client.query('insert into p select 150 from generate_series(1, 40)');
    for (const table of ['p', 'p1']) t.is(await sqlStateOf(client.query(`insert into ${table} values (1)`)), refused);
    await client.query('update p set x = 160 where x = 1');
    t.is(await sqlStateOf(client.query(`insert into p2 values (150)`)), refused);
    await client.query('alter table p detach partition p2');
    await client.query('insert into p1 select 1 from generate_series(1, 100)');
    t.is(await sqlStateOf(client.query(`insert into p2 values (150)`)), refused);
    t.is(await sqlStateOf(client.query(`alter table p attach partition p2 for values from (100) to (200)`)), refused);
    t.is(await sqlStateOf(client.query(`insert into p values (1)`)), refused);
    await client.query('drop table p2');
    t.is(await sqlStateOf(client.query(`insert into p values (1)`)), refused);
    await client.query('truncate p1');
    await client.query('insert into p select 1 from generate_series(1, 100)');
  }));

test('at repeatable read nothing is refused below the limit, and nothing goes beyond it', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(99)}`);
    await client.query('begin isolation level repeatable read');
    await client.query('insert into t values (1)');
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    await client.query('rollback');
    t.is(await countOf(client, 't'), 99);
    await client.query('insert into t values (1)');
  }));

test('twelve writers at once do not go beyond the limit by more than a hundredth, nor stop below it', async (t) => {
  const project = await projectWith(platform(), { rows: 400 });
  await asOwner(platform(), project, (client) => client.query('create table t (x int)'));
  const write = (rows: number) =>
    asOwner(platform(), project, async (client) => {
      for (;;) {
        // Two that would wait for each other: one is told to try again.
        const state = await sqlStateOf(client.query(`insert into t ${numbers(rows)}`));
        if (state === refused) return;
        if (state !== null && state !== '40001') throw new Error(state);
      }
    });
  await Promise.all(Array.from({ length: 12 }, (_, writer) => write(writer % 3 === 0 ? 7 : 1)));
  const held = await asOwner(platform(), project, (client) => countOf(client, 't'));
  t.true(held >= 400 && held <= 404, `${held} rows`);
});

test('eight writers of batches go beyond the limit by at most a hundredth, rolled-back batches among them', async (t) => {
  const project = await projectWith(platform(), { rows: 2000 });
  await asOwner(platform(), project, (client) => client.query('create table t (x int)'));
  const write = (rows: number) =>
    asOwner(platform(), project, async (client) => {
      for (let round = 0; ; round += 1) {
        const [before, after] = round % 5 === 4 ? ['begin', 'rollback'] : ['begin', 'commit'];
        await client.query(before);
        const state = await sqlStateOf(client.query(`insert into t ${numbers(rows)}`));
        await client.query(after);
        if (state === refused) return;
        if (state !== null && state !== '40001') throw new Error(state);
      }
    });
  await Promise.all(Array.from({ length: 8 }, (_, writer) => write(10 + writer)));
  const held = await asOwner(platform(), project, (client) => countOf(client, 't'));
  // The smallest batch no longer fits.
  t.true(held > 1990 && held <= 2020, `${held} rows`);
});

test('COPY is bound as well', async (t) => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, (client) => client.query('create table t (x int)'));
  await asAdmin(project.dbName, async (admin) => {
    t.is(await sqlStateOf(admin.query(`copy t from program 'seq 101'`)), refused);
    t.is(await sqlStateOf(admin.query(`copy t from program 'seq 100'`)), null);
    t.is(await sqlStateOf(admin.query(`copy t from program 'seq 1'`)), refused);
    t.is(await countOf(admin, 't'), 100);
  });
});

test('operators of the project’s own, first in its search path, do not decide about its limit', (t) =>
  inTable(async (client) => {
    await client.query(`create schema own; grant usage on schema own to public`);
    for (const operator of ['>', '=', '>=']) {
      const name = `own.f${operator.length}${operator.charCodeAt(0)}`;
      await client.query(`create function ${name}(bigint, bigint) returns boolean language sql as 'select false';
        grant execute on function ${name}(bigint, bigint) to public;
        create operator own.${operator} (leftarg = bigint, rightarg = bigint, function = ${name})`);
    }
    await client.query('set search_path = own, pg_catalog, public');
    await client.query(`insert into t ${numbers(100)}`);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    t.is(await sqlStateOf(client.query(`insert into t ${numbers(2)}`)), refused);
  }));

test('transactions that are open at once count each other’s rows', async (t) => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, async (first) => {
    await first.query('create table t (x int)');
    await first.query('begin');
    await first.query(`insert into t ${numbers(60)}`);
    await asOwner(platform(), project, async (second) => {
      await second.query('begin');
      const insert = sqlStateOf(second.query(`insert into t ${numbers(60)}`));
      // It waits to know what becomes of the first one's rows.
      await first.query('commit');
      t.is(await insert, refused);
      await second.query('rollback');
    });
    t.is(await countOf(first, 't'), 60);
  });
});

test('after rows were put together everything counts as before', async (t) => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, async (client) => {
    await client.query('create table t (x int)');
    for (let row = 0; row < 60; row += 1) await client.query('insert into t values (1)');
    await client.query('delete from t where ctid in (select ctid from t limit 10)');
    await client.query(`begin; insert into t ${numbers(40)}; rollback`);
    await client.query('begin');
    await client.query(`insert into t ${numbers(20)}`);
    await asAdmin(project.dbName, foldCounters);
    await client.query('commit');
    await asAdmin(project.dbName, foldCounters);
    await client.query(`insert into t ${numbers(30)}`);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    t.is(await countOf(client, 't'), 100);
  });
  const deltas = await asAdmin(project.dbName, async (admin) => {
    await foldCounters(admin);
    return (await admin.query('select sum(delta)::int as held from plinth.row_deltas')).rows;
  });
  t.deepEqual(deltas, [{ held: 100 }]);
});

test('a larger plan, and a smaller one, count at once on connections that are open', (t) =>
  inTable(async (client) => {
    await client.query(`insert into t ${numbers(100)}`);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    const { rows } = await client.query('select current_database() as name');
    const set = (max: number | null) =>
      asAdmin(String(rows[0].name), (admin) => admin.query('update plinth.limits set max_rows = $1', [max]));
    await set(null);
    await client.query(`insert into t ${numbers(500)}`);
    await set(550);
    t.is(await sqlStateOf(client.query('insert into t values (1)')), refused);
    await client.query(`delete from t where x > 400`);
    await client.query('insert into t values (1)');
  }));
