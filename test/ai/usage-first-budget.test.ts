import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { deleteBudget, setBudget } from '#domain/ai/usage/budget.ts';
import { firstIdAt } from '#lib/ids.ts';
import { hardBudget, madeEnd, madeIntent, monthOf, nano, putBudget, spend, useUsageScene } from './usage-scene.ts';

const scene = useUsageScene(test);

test('a first budget finds what the month has cost, and what is open', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  await spend(log, project, 50, 30);
  const lastMonth = new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), 1) - 1);
  const old = log.begin(madeIntent(project, { startedAt: lastMonth, reserveNanoUsd: 7 }));
  const open = log.begin(madeIntent(project, { reserveNanoUsd: 20 }));
  await Promise.all([old.recorded, open.recorded]);
  old.end(madeEnd({ costNanoUsd: 7 }));
  await log.settled();
  t.is((await putBudget(db, project, hardBudget(60))).used_usd, 30 / nano);
  t.deepEqual(await monthOf(db, project), { used: 30, reserved: 20 });
  t.false(await spend(log, project, 11, 1));
  open.end(madeEnd({ costNanoUsd: 5 }));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 35, reserved: 0 });
});

test('a first budget counts calls of earlier in the month, and one of them that ends while it is set', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  // So that there is an earlier in the month, whatever today is.
  const [row] = await db.query<{ end: Date }>(
    `select (date_trunc('month', now() at time zone 'utc') + interval '1 month - 1 second') at time zone 'utc' as end`,
  );
  const now = row?.end ?? new Date();
  const [ended, open, left] = [1, 2, 3].map((days) => {
    const at = now.getTime() - days * 3_600_000;
    const intent = madeIntent(project, { id: firstIdAt(at), startedAt: new Date(at), reserveNanoUsd: days * 100 });
    return log.begin(intent);
  });
  await Promise.all([ended?.recorded, open?.recorded, left?.recorded]);
  ended?.end(madeEnd({ costNanoUsd: 1 }));
  await log.settled();
  await db.transaction(async (tx) => {
    const query: typeof tx.query = async (sql, values, name) => {
      const rows = await tx.query(sql, values, name);
      if (sql.includes('as unsettled')) {
        open?.end(madeEnd({ costNanoUsd: 20 }));
        await log.settled();
      }
      return rows as never;
    };
    await setBudget({ query }, project, hardBudget(1000), now);
  }, systemActor);
  t.deepEqual(await monthOf(db, project), { used: 21, reserved: 300 });
  left?.end(madeEnd({ costNanoUsd: 5 }));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 26, reserved: 0 });
});

test('a budget that is deleted by somebody else while it is set is a conflict', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject(hardBudget(10));
  const work = db.transaction(async (tx) => {
    const query: typeof tx.query = async (sql, values, name) => {
      if (sql.includes('pg_advisory_xact_lock('))
        await db.transaction((other) => deleteBudget(other, project), systemActor);
      return tx.query(sql, values, name);
    };
    await setBudget({ query }, project, hardBudget(20));
  }, systemActor);
  await t.throwsAsync(work, { code: 'conflict' });
  t.is(await monthOf(db, project), undefined);
});
