import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';
import { type CronClient, cronClient } from './cron-client.ts';

const platform = usePlatform(test, { shared: true });

let owner: TestUser;
let project: TestProject;
let cron: CronClient;

test.before('there is a project whose events are kept', async () => {
  owner = await platform().client.signUp();
  project = await platform().client.createProject(owner, { plan: 'pro' });
  cron = cronClient(platform(), owner, project);
  await keepEventsOf(platform().db, project.id);
});

const deploy = async (code: string) =>
  ({ type: 'function', function_id: (await platform().client.deploy(owner, project, code)).id }) as const;

const missed = (scheduleId: string): Promise<Record<string, unknown>[]> =>
  platform()
    .db.query<{ data: Record<string, unknown> }>(
      `select data from outbox_events where project_id = $1 and event = 'cron.missed' and data ->> 'schedule_id' = $2`,
      [project.id, scheduleId],
    )
    .then((rows) => rows.map(({ data }) => data));

test('a run is tried again as the schedule says, under the schedule’s own time-out', async (t) => {
  const target = await deploy(`
    export const handler = (payload, sdk) => sdk.attempt < 3 ? new Promise(() => {}) : sdk.attempt;`);
  const retry = { max_attempts: 4, base_ms: 1, on: ['timeout'] };
  const { run, job } = await cron.run(await cron.create(target, { retry, timeout_ms: 200 }));
  t.is(run.status, 'succeeded');
  t.is(job.result.result, 3);
});

test('options that do not fit are refused by their names', async (t) => {
  const target = await deploy('export const handler = () => null;');
  const cases: readonly [string, object][] = [
    ['jitter_ms', { schedule: '* * * * *', jitter_ms: 60_000 }],
    ['jitter_ms', { jitter_ms: -1 }],
    ['deadline_ms', { deadline_ms: 1 }],
    ['timeout_ms', { timeout_ms: 300_001 }],
  ];
  for (const [path, fields] of cases) {
    const body = { name: 'x', schedule: '@yearly', target, ...fields };
    const { status, body: answer } = await cron.call('POST', '/cron', body);
    t.is(status, 400, path);
    t.is(answer.details[0].path, path);
  }
  const id = await cron.create(target, { schedule: '0 3 * * *', jitter_ms: 600_000, deadline_ms: 3_600_000 });
  const listed = (await cron.call('GET', '/cron')).body.schedules.find((one: { id: string }) => one.id === id);
  t.like(listed, { jitter_ms: 600_000, deadline_ms: 3_600_000, retry: null, timeout_ms: null, last_run: null });
  const [row] = await platform().db.query<{ late: number }>(
    'select extract(epoch from due_at - next_run_at)::float8 as late from schedules where id = $1',
    [id],
  );
  t.true((row?.late ?? -1) >= 0 && (row?.late ?? 601) <= 600);
});

test('a fire that is skipped, and a run that has not succeeded by its deadline, are events', async (t) => {
  const { db } = platform();
  const fireNow = (id: string, ago: string) =>
    db.query('update schedules set next_run_at = now() - $2::interval, due_at = now() where id = $1', [id, ago]);
  const target = await deploy('export const handler = () => { throw new Error("no"); };');
  const skipped = await cron.create(target, { misfire: 'skip' });
  await fireNow(skipped, '1 hour');
  t.like(await until(async () => (await missed(skipped))[0]), { name: 'x', status: 'skipped' });

  const deadlineNow = (id: string) =>
    db.query('update schedule_runs set deadline_at = now() where schedule_id = $1', [id]);
  const late = await cron.create(target, { deadline_ms: 3_600_000 });
  await fireNow(late, '0');
  t.is((await cron.endOf(late)).run.status, 'failed');
  await deadlineNow(late);
  t.like(await until(async () => (await missed(late))[0]), {
    status: 'failed',
    reason: 'it did not succeed by its deadline',
  });
  const good = await cron.create(await deploy('export const handler = () => 1;'), { deadline_ms: 3_600_000 });
  await fireNow(good, '0');
  t.is((await cron.endOf(good)).run.status, 'succeeded');
  await deadlineNow(good);
  await until(async () => {
    const open = await db.query('select from schedule_runs where schedule_id = $1 and deadline_at is not null', [good]);
    return open.length === 0;
  });
  t.deepEqual(await missed(good), []);
  t.is((await missed(late)).length, 1);
});
