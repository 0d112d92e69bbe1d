import test from 'ava';
import { insertPlainIntents, upsertPlainEnds } from '#domain/ai/usage/call-store.ts';
import { newId } from '#lib/ids.ts';
import { madeEnd, madeIntent, monthOf, putBudget, rowsOf, useUsageScene } from './usage-scene.ts';

const scene = useUsageScene(test);
const budget = { monthly_usd: 1, hard: true };
const heartbeat = newId();

test('calls of projects without a budget are recorded, and their ends once', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const intents = ['a', '\uD800 "half"'].map((model) => madeIntent(project, { model, reserveNanoUsd: 7 }));
  t.deepEqual(await insertPlainIntents(db, intents, heartbeat), []);
  t.deepEqual(await insertPlainIntents(db, intents, heartbeat), []);
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status }) => status),
    ['open', 'open'],
  );
  // One whose intent never came through has a row of its own.
  const ended = [...intents, madeIntent(project)].map((intent) => ({ intent, end: madeEnd({ costNanoUsd: 5 }) }));
  t.true(await upsertPlainEnds(db, ended, heartbeat));
  const again = ended.map(({ intent }) => ({ intent, end: madeEnd({ status: 'error', costNanoUsd: 9 }) }));
  t.true(await upsertPlainEnds(db, again, heartbeat));
  for (const row of await rowsOf(db, project))
    t.like(row, { status: 'success', cost_nano_usd: 5, reserved_nano_usd: 0 });
  t.is((await rowsOf(db, project)).length, 3);
});

test('with one of a project with a budget among them none is recorded, and whose it is is told', async (t) => {
  const { db, createProject } = scene();
  const [free, bound] = [await createProject(), await createProject(budget)];
  const intents = [madeIntent(free), madeIntent(bound), madeIntent(bound)];
  t.deepEqual(await insertPlainIntents(db, intents, heartbeat), [bound]);
  t.false(
    await upsertPlainEnds(
      db,
      intents.map((intent) => ({ intent, end: madeEnd() })),
      heartbeat,
    ),
  );
  t.deepEqual([await rowsOf(db, free), await rowsOf(db, bound)], [[], []]);
});

test('a budget that is made between a call’s beginning and its end counts it', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  // The first statement of a process says that it lives, too: the second one is the short one.
  await log.begin(madeIntent(project)).recorded;
  const call = log.begin(madeIntent(project, { reserveNanoUsd: 30 }));
  await call.recorded;
  await putBudget(db, project, budget);
  t.deepEqual(await monthOf(db, project), { used: 0, reserved: 30 });
  call.end(madeEnd({ costNanoUsd: 12 }));
  await log.settled();
  t.deepEqual(await monthOf(db, project), { used: 12, reserved: 0 });
});

test.serial('an end of a day that is being added up goes the long way, and the day is added up again', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const call = log.begin(madeIntent(project));
  await call.recorded;
  await db.query(`update ai_usage_rolled set closing = (now() at time zone 'utc')::date`);
  try {
    const end = { intent: madeIntent(project), end: madeEnd() };
    t.false(await upsertPlainEnds(db, [end], heartbeat));
    call.end(madeEnd());
    await log.settled();
    t.is((await db.query('select from ai_usage_stale where project_id = $1', [project])).length, 1);
    t.is((await rowsOf(db, project))[0]?.status, 'success');
  } finally {
    await db.query(`update ai_usage_rolled set closing = '2000-01-01'`);
  }
});
