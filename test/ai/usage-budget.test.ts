import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { deleteBudget, releaseLeftReservations, setBudget } from '#domain/ai/usage/budget.ts';
import { upsertEnds } from '#domain/ai/usage/call-store.ts';
import { newId } from '#lib/ids.ts';
import { ServiceError } from '#lib/errors.ts';
import { until } from '#test/support/until.ts';
import {
  closeForgotten,
  hardBudget,
  madeEnd,
  madeIntent,
  monthOf,
  nano,
  putBudget,
  refusalOf,
  rowsOf,
  spend,
  useUsageScene,
} from './usage-scene.ts';

const scene = useUsageScene(test);

const sumOfCosts = async (projectId: string): Promise<number> =>
  (await rowsOf(scene().db, projectId)).reduce((sum, row) => sum + (row.cost_nano_usd ?? 0), 0);

test('a hard budget is never exceeded, whatever several processes ask at once', async (t) => {
  const { db, createProject, openLog } = scene();
  const projects = await Promise.all([1000, 5000].map((max) => createProject(hardBudget(max))));
  const logs = [openLog(), openLog(), openLog()];
  let isOver = false;
  const watch = (async () => {
    let highest = 0;
    while (!isOver) {
      const rows = await db.query<{ part: number }>(
        `select (m.used_nano_usd + m.reserved_nano_usd)::float8 / b.monthly_nano_usd as part
         from ai_budget_months m join ai_budgets b using (project_id) where project_id = any($1::uuid[])`,
        [projects],
      );
      highest = Math.max(highest, ...rows.map(({ part }) => part));
    }
    return highest;
  })();
  const calls = Array.from({ length: 600 }, (_, n) => n);
  const granted = await Promise.all(
    calls.map((n) => {
      const wanted = 1 + ((n * 37) % 60);
      const [log, project] = [logs[n % 3], projects[n % 2]];
      return log && project ? spend(log, project, wanted, Math.ceil(wanted * ((n % 10) / 10))) : Promise.resolve(false);
    }),
  );
  await Promise.all(logs.map((log) => log.settled()));
  isOver = true;
  t.true((await watch) <= 1);
  t.true(granted.includes(true) && granted.includes(false));
  t.is((await Promise.all(projects.map((id) => rowsOf(db, id)))).flat().length, granted.filter(Boolean).length);
  for (const [at, project] of projects.entries()) {
    const cost = await sumOfCosts(project);
    t.deepEqual(await monthOf(db, project), { used: cost, reserved: 0 });
    t.true(cost <= (at === 0 ? 1000 : 5000));
  }
});

test('a call that does not fit is refused without a row, one beside it that fits is not', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(100));
  const log = openLog();
  const calls = [500, 60, 40, 1].map((reserveNanoUsd) => log.begin(madeIntent(project, { reserveNanoUsd })));
  const refusals = await Promise.all(calls.map(({ recorded }) => refusalOf(recorded)));
  // The smallest ones that fit together: 1 and 40.
  t.deepEqual(refusals, ['budget_exceeded', 'budget_exceeded', null, null]);
  for (const call of calls) call.end(madeEnd({ costNanoUsd: 1 }));
  await log.settled();
  t.is((await rowsOf(db, project)).length, 2);
  t.deepEqual(await monthOf(db, project), { used: 2, reserved: 0 });
});

test('a refusal says when the budget begins anew', async (t) => {
  const { createProject, openLog } = scene();
  const project = await createProject(hardBudget(0));
  const call = openLog().begin(madeIntent(project, { reserveNanoUsd: 1 }));
  const error = await t.throwsAsync<ServiceError>(call.recorded, { instanceOf: ServiceError });
  t.is(error?.status, 429);
  const seconds = Number(error?.headers['Retry-After']);
  t.true(seconds >= 1 && seconds <= 31 * 86_400);
  call.end(madeEnd());
});

test('models without a price do not count, also when nothing is left', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(0));
  const log = openLog();
  const call = log.begin(madeIntent(project));
  t.is(await refusalOf(call.recorded), null);
  call.end(madeEnd({ costNanoUsd: null }));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 0, reserved: 0 });
});

test('a soft budget refuses nothing and counts', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject({ monthly_usd: 10 / nano, hard: false });
  const log = openLog();
  t.true(await spend(log, project, 500, 400));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 400, reserved: 0 });
  const { used_usd: used } = await putBudget(db, project, hardBudget(450));
  t.is(used, 400 / nano);
  t.false(await spend(log, project, 51, 1));
  t.true(await spend(log, project, 50, 1));
});

test('a project without a budget has no count', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  t.true(await spend(log, project, 1e12, 1e12));
  await log.settled();
  t.is(await monthOf(db, project), undefined);
});

test('budgets that come and go while calls begin and end count each call once', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const logs = [openLog(), openLog()];
  for (let round = 0; round < 6; round += 1) {
    const calls = Array.from({ length: 120 }, (_, n) => {
      const log = logs[n % 2];
      return log === undefined ? Promise.resolve(false) : spend(log, project, 3, 1 + (n % 3));
    });
    await new Promise(setImmediate);
    await putBudget(db, project, { monthly_usd: 1, hard: true });
    await Promise.all(calls);
    await Promise.all(logs.map((log) => log.settled()));
    t.deepEqual(await monthOf(db, project), { used: await sumOfCosts(project), reserved: 0 });
    await db.transaction((tx) => deleteBudget(tx, project), systemActor);
    t.is(await monthOf(db, project), undefined);
  }
});

test('a call that was given up counts with all that was kept for it under a budget, and nowhere else', async (t) => {
  const { db, createProject, openLog } = scene();
  const [budgeted, free] = [await createProject(hardBudget(100)), await createProject()];
  const log = openLog();
  for (const project of [budgeted, free]) {
    const call = log.begin(madeIntent(project, { reserveNanoUsd: 70 }));
    await call.recorded;
    call.end(madeEnd({ status: 'client_closed', costNanoUsd: 5, givenUp: true }));
  }
  await log.settled();
  t.deepEqual(await monthOf(db, budgeted), { used: 70, reserved: 0 });
  t.deepEqual([await sumOfCosts(budgeted), await sumOfCosts(free)], [70, 5]);
});

test('while a budget is being set calls of other projects begin and end', async (t) => {
  const { db, createProject, openLog } = scene();
  const [busy, budgeted, free] = [await createProject(), await createProject(hardBudget(100)), await createProject()];
  const log = openLog();
  await db.transaction(async (tx) => {
    await setBudget(tx, busy, hardBudget(10));
    t.true(await spend(log, budgeted, 10, 7));
    t.true(await spend(log, free, 10, 7));
    await log.settled();
    t.deepEqual(await monthOf(db, budgeted), { used: 7, reserved: 0 });
  }, systemActor);
  t.false(await spend(log, busy, 11, 1));
});

test('a call that waits for a budget that is being set is bound by it, and one that ends meanwhile counts', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const [first, second] = [openLog(), openLog()];
  const before = first.begin(madeIntent(project, { reserveNanoUsd: 3 }));
  await before.recorded;
  const waiting = await db.transaction(async (tx) => {
    await setBudget(tx, project, hardBudget(10));
    const call = second.begin(madeIntent(project, { reserveNanoUsd: 8 }));
    before.end(madeEnd({ costNanoUsd: 4 }));
    await until(async () => {
      const [row] = await db.query<{ waiting: number }>(
        `select count(*) as waiting from pg_locks where locktype = 'advisory' and not granted
           and objid = hashtext($1)::bigint & 4294967295
           and database = (select oid from pg_database where datname = current_database())`,
        [project],
      );
      return row?.waiting === 2;
    });
    return call;
  }, systemActor);
  t.is(await refusalOf(waiting.recorded), 'budget_exceeded');
  waiting.end(madeEnd());
  await first.settled();
  t.deepEqual(await monthOf(db, project), { used: 4, reserved: 0 });
});

test('a call whose process is gone counts with all that was kept for it, until its real end comes', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(100));
  const log = openLog();
  const calls = [20, 30].map((reserveNanoUsd) => log.begin(madeIntent(project, { reserveNanoUsd })));
  await Promise.all(calls.map(({ recorded }) => recorded));
  await closeForgotten(db, project);
  t.deepEqual(await monthOf(db, project), { used: 50, reserved: 0 });
  calls[0]?.end(madeEnd({ costNanoUsd: 4 }));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 34, reserved: 0 });
  t.is(await sumOfCosts(project), 34);
});

test('an end that is recorded again, since nobody heard that it was, costs nothing more', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(100));
  const intent = madeIntent(project, { reserveNanoUsd: 20 });
  await openLog().begin(intent).recorded;
  const heartbeat = newId();
  await upsertEnds(db, [{ intent, end: madeEnd({ costNanoUsd: 5 }) }], heartbeat);
  await upsertEnds(db, [{ intent, end: madeEnd({ costNanoUsd: 5 }) }], heartbeat);
  await upsertEnds(db, [{ intent, end: madeEnd({ status: 'error', costNanoUsd: 9 }) }], heartbeat);
  t.deepEqual(await monthOf(db, project), { used: 5, reserved: 0 });
  t.like((await rowsOf(db, project))[0], { status: 'success', cost_nano_usd: 5 });
});

test('what is reserved for no open call is given back, and nothing else', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(100));
  const log = openLog();
  const call = log.begin(madeIntent(project, { reserveNanoUsd: 20 }));
  await call.recorded;
  await db.query('update ai_budget_months set reserved_nano_usd = reserved_nano_usd + 33 where project_id = $1', [
    project,
  ]);
  await Promise.all([releaseLeftReservations(db), releaseLeftReservations(db)]);
  t.deepEqual(await monthOf(db, project), { used: 0, reserved: 20 });
  call.end(madeEnd({ costNanoUsd: 1 }));
  await log.settled();
});
