import test from 'ava';
import { takeDue } from '#domain/jobs/changes.ts';
import { claimLeadership, waitingBetween } from '#domain/jobs/queue-shards.ts';
import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

const part = { index: 0, count: 1 };
const asleep = 100_000;
const due = 700;

/** The statement that a piece of work makes, as PostgreSQL plans it. */
const planOf = async (work: (db: Queryable) => Promise<unknown>): Promise<string> => {
  let plan: Promise<readonly { 'QUERY PLAN': string }[]> = Promise.resolve([]);
  const explaining: Queryable = {
    query: <Row>(sql: string, values?: readonly unknown[]) => {
      plan = platform().db.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, [...(values ?? [])]);
      return Promise.resolve([] as Row[]);
    },
  };
  await work(explaining);
  return (await plan).map((row) => row['QUERY PLAN']).join('\n');
};

test('a hundred thousand runs that sleep are passed over by an index: those that are due are taken in their order', async (t) => {
  const { client, db } = platform();
  await db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id, attempt, has_steps, step_wait,
       next_run_at)
     select uuid_v7(), $1, 'function.invoke', 'waiting', '{}', 1, 'asleep', 1, true, 'sleep',
       now() + make_interval(secs => n - $3)
     from generate_series(1, $2) as n`,
    [newId(), asleep, due],
  );
  await db.query('analyze jobs');
  const type = 'function.invoke';
  for (const work of [
    (on: Queryable) => takeDue(on, { type, part, max: 500 }),
    (on: Queryable) => claimLeadership(on, [{ name: type, type, compares: true }], newId()),
    (on: Queryable) =>
      waitingBetween(on, { type, part, after: firstIdAt(0), until: firstIdAt(Date.now() + 1000), max: 1000 }),
  ]) {
    const plan = await planOf(work);
    t.false(/Seq Scan on jobs/.test(plan), plan);
    t.true(/Index/.test(plan), plan);
  }
  const taken = await takeDue(db, { type, part, max: 500 });
  t.is(taken.length, 500);
  const [left] = await db.query<{ due: number; queued: number }>(
    `select count(*) filter (where status = 'waiting' and next_run_at <= now())::int as due,
       count(*) filter (where status = 'queued' and next_run_at is null)::int as queued
     from jobs where request_id = 'asleep'`,
  );
  t.is(left?.queued, 500);
  t.true((left?.due ?? 0) >= due - 500 - 1);
  const answer = await client.call('GET', '/ops/api/jobs?status=waiting&limit=1', {
    token: opsToken,
  });
  t.is(answer.status, 200, answer.text);
});
