import test from 'ava';
import type { CallEnd } from '#domain/ai/usage/usage.ts';
import { usageReport } from '#domain/ai/usage/report.ts';
import { deleteOldCalls, rollUp } from '#domain/ai/usage/roll-up.ts';
import { up } from '#migrations/control/0031_ai_usage_details.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { closeForgotten, madeEnd, madeIntent, rowsOf, useUsageScene } from './usage-scene.ts';

// Each test has its own days: what is added up is so for all projects of the database.
const scene = useUsageScene(test);
const dayMs = 86_400_000;

/** An id as it is made at that time. */
const idAt = (ms: number): string => firstIdAt(ms).slice(0, 19) + newId().slice(19);

const callAt = async (projectId: string, ms: number, end: Partial<CallEnd> | null = {}) => {
  const log = scene().openLog();
  const call = log.begin(madeIntent(projectId, { id: idAt(ms), startedAt: new Date(ms) }));
  await call.recorded;
  if (end !== null) call.end(madeEnd(end));
  await log.settled();
  return { end: call.end, settled: log.settled };
};

/** As the sweep does it, with its minute in between. */
const rollTo = async (now: number): Promise<void> => {
  const { db } = scene();
  const rolled = async () => (await db.query<{ day: string }>('select day::text from ai_usage_rolled'))[0]?.day;
  let before: string | undefined;
  do {
    before = await rolled();
    await rollUp(db, new Date(now));
    await db.query(`update ai_usage_rolled set closed_at = now() - interval '61 seconds'`);
    await rollUp(db, new Date(now));
  } while ((await rolled()) !== before);
};

const noDetails = {
  prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
};

test.serial('the report adds up calls, tokens and cost, by provider and day; open calls are not in it', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const now = Date.parse('2026-03-10T12:00:00Z');
  await callAt(project, now);
  await callAt(project, now - dayMs, {
    status: 'error',
    usage: null,
    costNanoUsd: null,
    errorCode: 'provider_timeout',
  });
  await callAt(project, now, null);
  const report = await usageReport(db, project, 30, new Date(now));
  t.is(report.total_requests, 2);
  t.deepEqual(report.total_tokens, { prompt: 3, completion: 2 });
  t.is(report.total_cost_nano_usd, 10);
  t.deepEqual(report.by_provider, { openai: { requests: 2, tokens: 5, cost_nano_usd: 10, ...noDetails } });
  t.deepEqual(
    report.by_day.map(({ day, requests }) => [day, requests]),
    [
      ['2026-03-09', 1],
      ['2026-03-10', 1],
    ],
  );
  t.is(report.recent_logs.length, 2);
  t.like(report.recent_logs[1], { status: 'error', error_code: 'provider_timeout', cost_nano_usd: null });
});

test.serial('absurd numbers of one project fail neither its report nor the sums of others', async (t) => {
  const { db, createProject } = scene();
  const [absurd, other] = [await createProject(), await createProject()];
  const now = Date.parse('2026-01-20T12:00:00Z');
  const max = Number.MAX_SAFE_INTEGER;
  await callAt(absurd, now, { usage: { prompt_tokens: max, completion_tokens: max }, costNanoUsd: max });
  await callAt(absurd, now);
  await callAt(other, now);
  const costs = (await rowsOf(db, absurd)).map((row) => row.cost_nano_usd ?? 0);
  t.is(Math.max(...costs), 1e13);
  // As if they were there from before.
  await db.query(`update ai_calls set cost_nano_usd = $2 where project_id = $1`, [absurd, max]);
  await db.query(
    `insert into ai_calls (id, project_id, kind, provider, model, status, cost_nano_usd, request_id, keeper, started_at)
     select gen_random_uuid(), project_id, kind, provider, model, status, cost_nano_usd, request_id, keeper, started_at
     from ai_calls, generate_series(1, 600) where project_id = $1`,
    [absurd],
  );
  await db.query(`update ai_calls set id = ($2 || substr(id::text, 20))::uuid where project_id = $1`, [
    absurd,
    idAt(now).slice(0, 19),
  ]);
  t.is((await usageReport(db, absurd, 30, new Date(now))).total_cost_nano_usd, max);
  await rollTo(now + 3 * dayMs);
  t.is((await usageReport(db, absurd, 30, new Date(now))).total_cost_nano_usd, max);
  t.is((await usageReport(db, other, 30, new Date(now))).total_cost_nano_usd, 10);
});

test.serial('a project without calls has an empty report', async (t) => {
  const { db, createProject } = scene();
  const report = await usageReport(db, await createProject(), 365);
  t.deepEqual(report, {
    total_requests: 0,
    total_tokens: { prompt: 0, completion: 0 },
    total_cost_nano_usd: 0,
    ...noDetails,
    by_provider: {},
    by_day: [],
    recent_logs: [],
  });
});

test.serial('days are days of UTC, today and those before it', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const midnight = Date.parse('2026-04-02T00:00:00Z');
  for (const ms of [midnight - 1, midnight, midnight + dayMs - 1]) await callAt(project, ms);
  const requests = async (days: number) =>
    (await usageReport(db, project, days, new Date(midnight + 1))).total_requests;
  t.is(await requests(1), 2);
  t.is(await requests(2), 3);
});

test.serial('each call is counted once before, while and after its day is added up', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const first = Date.parse('2026-05-01T00:00:00Z');
  for (let day = 0; day < 5; day += 1) {
    for (const part of [0, 0.5, 1 - 1 / dayMs]) await callAt(project, first + Math.floor((day + part) * dayMs));
  }
  for (let day = 0; day < 8; day += 1) {
    const now = first + day * dayMs;
    await rollTo(now);
    await rollTo(now);
    const report = await usageReport(db, project, 30, new Date(now + 10 * dayMs));
    t.is(report.total_requests, 15);
    t.is(report.total_cost_nano_usd, 150);
    t.deepEqual(
      report.by_day.map(({ requests }) => requests),
      [3, 3, 3, 3, 3],
    );
  }
  const [sums] = await db.query<{ requests: number }>(
    'select sum(requests)::bigint as requests from ai_usage_days where project_id = $1',
    [project],
  );
  t.is(sums?.requests, 15);
});

test.serial('a day is not added up before it is over for a day', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const noon = Date.parse('2026-06-01T12:00:00Z');
  await callAt(project, noon);
  const count = async () => (await db.query('select from ai_usage_days where project_id = $1', [project])).length;
  await rollTo(noon + dayMs);
  t.is(await count(), 0);
  await rollTo(noon + 2 * dayMs);
  t.is(await count(), 1);
});

test.serial('a call that ends after its day was added up is in it all the same', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const noon = Date.parse('2026-07-01T12:00:00Z');
  const late = await callAt(project, noon, null);
  const lost = await callAt(project, noon, null);
  await rollTo(noon + 3 * dayMs);
  const report = () => usageReport(db, project, 30, new Date(noon + 3 * dayMs));
  t.is((await report()).total_requests, 0);
  late.end(madeEnd({ costNanoUsd: 5 }));
  await late.settled();
  await rollUp(db, new Date(noon + 3 * dayMs));
  t.is((await report()).total_cost_nano_usd, 5);
  await closeForgotten(db, project);
  await rollUp(db, new Date(noon + 3 * dayMs));
  t.is((await report()).total_requests, 2);
  lost.end(madeEnd({ costNanoUsd: 7 }));
  await lost.settled();
  await rollUp(db, new Date(noon + 3 * dayMs));
  t.is((await report()).total_cost_nano_usd, 12);
  t.is((await report()).total_requests, 2);
});

test.serial('calls are deleted after 90 days; their sums remain', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const noon = Date.parse('2026-08-01T12:00:00Z');
  await callAt(project, noon);
  await callAt(project, noon + dayMs);
  const now = noon + 91 * dayMs;
  await deleteOldCalls(db, 1000, new Date(now));
  t.is((await rowsOf(db, project)).length, 2, 'before they are added up none is deleted');
  await rollTo(now);
  await deleteOldCalls(db, 1000, new Date(now - 2 * dayMs));
  t.is((await rowsOf(db, project)).length, 2);
  await deleteOldCalls(db, 1000, new Date(now));
  t.is((await rowsOf(db, project)).length, 1);
  await rollTo(now);
  const report = await usageReport(db, project, 365, new Date(now));
  t.is(report.total_requests, 2);
  t.is(report.recent_logs.length, 1);
});

const details = (times: number) => ({
  prompt_tokens_details: { cached_tokens: 60 * times, cache_write_tokens: 7 * times },
  completion_tokens_details: { reasoning_tokens: 9 * times },
});

test.serial(
  'cached, written and reasoning tokens are in the sums, before and after their day is added up',
  async (t) => {
    const { db, createProject } = scene();
    const project = await createProject();
    const noon = Date.parse('2026-12-01T12:00:00Z');
    const used = {
      prompt_tokens: 100,
      completion_tokens: 50,
      cached_tokens: 60,
      cache_write_tokens: 7,
      reasoning_tokens: 9,
    };
    await callAt(project, noon, { usage: used });
    await callAt(project, noon, { usage: { prompt_tokens: 10, completion_tokens: 5 } });
    await callAt(project, noon + 5 * dayMs, { usage: used });
    const check = async () => {
      const report = await usageReport(db, project, 30, new Date(noon + 5 * dayMs));
      t.like(report, details(2));
      t.deepEqual(report.by_provider, { openai: { requests: 3, tokens: 315, cost_nano_usd: 30, ...details(2) } });
      t.deepEqual(
        report.by_day.map(({ day, tokens, prompt_tokens_details: prompt, completion_tokens_details: completion }) => [
          [day, tokens],
          { prompt_tokens_details: prompt, completion_tokens_details: completion },
        ]),
        [
          [['2026-12-01', 165], details(1)],
          [['2026-12-06', 150], details(1)],
        ],
      );
    };
    await check();
    await rollTo(noon + 5 * dayMs);
    const [rolled] = await db.query<{ cached: number }>(
      'select sum(cached_tokens)::bigint as cached from ai_usage_days where project_id = $1',
      [project],
    );
    t.is(rolled?.cached, 60, 'the first day is added up');
    await check();
  },
);

test.serial('days that were added up before there were sums of details are added up again', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const noon = Date.parse('2027-01-01T12:00:00Z');
  await callAt(project, noon, { usage: { prompt_tokens: 100, completion_tokens: 50, cached_tokens: 60 } });
  await rollTo(noon + 5 * dayMs);
  await db.query('alter table ai_usage_days drop cached_tokens, drop cache_write_tokens, drop reasoning_tokens');
  const knex = { raw: (sql: string) => db.query(sql) };
  await up(knex as unknown as Parameters<typeof up>[0]);
  await rollUp(db, new Date(noon + 5 * dayMs));
  const report = await usageReport(db, project, 30, new Date(noon + 5 * dayMs));
  t.is(report.prompt_tokens_details.cached_tokens, 60);
});
