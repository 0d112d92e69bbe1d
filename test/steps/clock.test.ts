import path from 'node:path';
import { pathToFileURL } from 'node:url';
import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

/*
 * Whether a sleep is over is a question to PostgreSQL: the clocks of workers, and of their machines, say nothing.
 */
const { scene, platform } = useJobsApi(test, { worker: false });

const hourMs = 3_600_000;
const sleepMs = 2000;
const runs = 5;

const sleeping = `exports.handler = async (payload, { step }) => {
  const before = await step.run('before', () => Date.now());
  await step.sleep(payload);
  return { before, after: await step.run('after', () => 1) };
}`;

/** A worker whose clock is ahead by so much; behind when it is negative. */
const workerWithClock = async (aheadMs: number) => {
  const shifted = pathToFileURL(path.join(import.meta.dirname, '../support/shifted-clock.ts'));
  const env = { ...environmentOf(platform().config), NODE_OPTIONS: `--import ${shifted.href}?ms=${aheadMs}` };
  const worker = startProcess('workers/server.ts', env);
  await worker.ready;
  return worker;
};

/** How far the clock of the worker that ran a job was ahead: its ids of runs begin with the time. */
const aheadOf = async (id: string): Promise<number> => {
  const [row] = await platform().db.query<{ run_id: string; at: Date }>(
    'select run_id, started_at as at from jobs where id = $1',
    [id],
  );
  return row === undefined ? NaN : parseInt(row.run_id.replaceAll('-', '').slice(0, 12), 16) - row.at.getTime();
};

/** How long after its sleep was over each job began its last run, in ms, by PostgreSQL's clock. */
const lateness = async (ids: readonly string[]): Promise<number[]> => {
  const rows = await platform().db.query<{ late: number }>(
    `select extract(epoch from j.started_at - s.due_at)::float8 * 1000 as late
     from jobs j join job_steps s on s.job_id = j.id and s.kind = 'sleep' where j.id = any ($1::uuid[])`,
    [ids],
  );
  return rows.map(({ late }) => late);
};

for (const [how, aheadMs] of [
  ['behind', -hourMs],
  ['ahead', hourMs],
] as const) {
  test.serial(`a worker whose clock is an hour ${how} starts sleepers when they are due, and loses none`, async (t) => {
    t.timeout(longTestMs);
    const worker = await workerWithClock(aheadMs);
    const one = await scene(sleeping);
    const ids = await Promise.all(Array.from({ length: runs }, () => one.begin(sleepMs)));
    for (const id of ids) {
      const job = await one.jobWhen(id, 'succeeded', 'failed', 'dead');
      t.like(job, { status: 'succeeded', result: { result: { after: 1 } } }, JSON.stringify(job));
    }
    t.is(Math.round((await aheadOf(ids[0] ?? '')) / hourMs), Math.sign(aheadMs));
    const late = await lateness(ids);
    t.is(late.length, runs);
    t.true(
      late.every((ms) => ms >= 0),
      String(late),
    );
    worker.child.kill('SIGTERM');
    await worker.end;
  });
}

test.serial('a run that was woken before the clock was set back sleeps once more, and then goes on', async (t) => {
  t.timeout(longTestMs);
  const stop = await platform().startWorker();
  const { db } = platform();
  const one = await scene(sleeping);
  const id = await one.begin(hourMs);
  await one.jobWhen(id, 'waiting');
  const stretches = async (): Promise<number> =>
    (await db.query('select from invocations where job_id = $1', [id])).length;
  const before = await stretches();
  // The leader took it for due by a clock that was ahead; the end of the sleep itself lies an hour off again.
  await db.query('update jobs set next_run_at = now() where id = $1', [id]);
  await until(async () => (await stretches()) > before);
  const again = await one.jobWhen(id, 'waiting');
  t.like(again, { waiting_reason: 'step_sleep', attempt: 1 });
  t.deepEqual(
    (again.steps as { name: string; status: string }[]).map(({ name, status }) => [name, status]),
    [
      ['before', 'succeeded'],
      ['sleep', 'waiting'],
    ],
  );
  await db.query(`update job_steps set due_at = now() where job_id = $1 and status = 'waiting'`, [id]);
  await db.query('update jobs set next_run_at = now() where id = $1', [id]);
  t.like(await one.jobWhen(id, 'succeeded', 'failed'), { status: 'succeeded', result: { result: { after: 1 } } });
  await stop();
});
