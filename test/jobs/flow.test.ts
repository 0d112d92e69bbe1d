import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { releaseHeld, renewStarts, takeStart } from '#domain/jobs/flow.ts';
import type { Tx } from '#lib/control-db.ts';
import type { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { until } from '#test/support/until.ts';
import { type ProjectScene, useJobsApi } from './scene.ts';

const { platform, scene, hold } = useJobsApi(test);

const echo = 'export const handler = (payload, sdk) => ({ payload, by: sdk.caller.kind });';

const controlled = async (fields: object, code = echo): Promise<ProjectScene> => {
  const s = await scene(code);
  const { status, text } = await s.ask('PATCH', `/functions/${s.fn.id}`, { body: fields });
  if (status !== 200) throw new Error(text);
  return s;
};

interface Enqueued {
  readonly job_id: string;
  readonly status: string;
}

const enqueue = async ({ ask, fn }: ProjectScene, body: object): Promise<readonly Enqueued[]> => {
  const answer = await ask('POST', `/functions/${fn.id}/jobs`, { body });
  if (answer.status !== 202) throw new Error(answer.text);
  return answer.body.jobs as readonly Enqueued[];
};

const withKeys = (...names: string[]) => ({ jobs: names.map((name) => ({ unique_key: name })) });

const idsOf = (jobs: readonly Enqueued[]): string[] => jobs.map(({ job_id: id }) => id);

const jobOf = async ({ ask }: ProjectScene, id: string) => (await ask('GET', `/jobs/${id}`)).body;

const statusesOf = async (s: ProjectScene, ids: readonly string[]): Promise<string[]> =>
  (await Promise.all(ids.map((id) => jobOf(s, id)))).map(({ status }) => String(status));

/** As if so many seconds had passed for what the functions of a project hold. */
const pass = async ({ project, fn }: ProjectScene, seconds: number): Promise<void> => {
  const { db } = platform();
  const ago = [fn.id, `${seconds} seconds`];
  await db.query('update function_rates set used_until = used_until - $2::interval where function_id = $1', ago);
  await db.query(
    `update jobs set slot_at = slot_at - $2::interval, queued_at = queued_at - $2::interval,
       next_run_at = case when next_run_at = 'infinity' then next_run_at else next_run_at - $2::interval end
     where project_id = $1 and status = 'queued' and flow_of is not null`,
    [project.id, ago[1]],
  );
};

const invocationsOf = async ({ ask, fn }: ProjectScene): Promise<number> =>
  (await ask('GET', `/functions/${fn.id}/invocations`)).body.total as number;

test('the fields are kept as they come, null takes them back, and no version is made', async (t) => {
  const s = await controlled({ rate: { per_second: 5 }, debounce_ms: 10, batch: { max_size: 2, max_wait_ms: 10 } });
  const path = `/functions/${s.fn.id}`;
  t.like((await s.ask('GET', path)).body, {
    rate: { per_second: 5, burst: 1 },
    debounce_ms: 10,
    batch: { max_size: 2, max_wait_ms: 10 },
    version: 1,
  });
  t.like((await s.ask('PATCH', path, { body: { rate: null } })).body, { rate: null, debounce_ms: 10 });
  for (const [field, value] of [
    ['rate.per_second', { rate: { per_second: 0 } }],
    ['rate.burst', { rate: { per_second: 1, burst: 0 } }],
    ['debounce_ms', { debounce_ms: 0 }],
    ['batch.max_size', { batch: { max_size: 1, max_wait_ms: 10 } }],
    ['batch.max_wait_ms', { batch: { max_size: 2 } }],
  ] as const) {
    const { status, body } = await s.ask('PATCH', path, { body: value });
    t.is(status, 400, field);
    t.is(body.details[0].path, field);
  }
});

test('jobs above the rate wait, say so, and run when their time has come; none is lost', async (t) => {
  const s = await controlled({ rate: { per_second: 0.01, burst: 2 } });
  const ids = idsOf(await enqueue(s, { payloads: [1, 2, 3, 4, 5] }));
  for (const id of ids.slice(0, 2)) await s.jobWhen(id, 'succeeded');
  for (const id of ids.slice(2)) t.like(await jobOf(s, id), { status: 'queued', waiting_reason: 'rate_limited' });
  const { body: queue } = await s.ask('GET', '/queue');
  t.like(queue, { waiting: 3, held: { rate_limited: 3, debounce: 0, batch: 0 } });
  for (let left = 3; left > 0; left -= 1) {
    await pass(s, 100);
    await until(async () => (await statusesOf(s, ids)).filter((status) => status === 'queued').length === left - 1);
  }
  t.deepEqual(
    await statusesOf(s, ids),
    ids.map(() => 'succeeded'),
  );
});

test('the rate of a function is another one at once, and none lets all of its jobs go', async (t) => {
  const s = await controlled({ rate: { per_second: 0.001 } });
  const ids = idsOf(await enqueue(s, { payloads: [1, 2, 3, 4] }));
  await s.jobWhen(ids[0] ?? '', 'succeeded');
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { rate: { per_second: 0.001, burst: 2 } } });
  await until(async () => (await statusesOf(s, ids)).filter((status) => status === 'succeeded').length === 3);
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { rate: null } });
  for (const id of ids) t.is((await s.jobWhen(id, 'succeeded')).error, null);
});

test('a job that is run again waits for the rate like any other', async (t) => {
  const s = await controlled({ rate: { per_second: 0.001 } }, 'export const handler = () => { throw new Error("no") }');
  const [id = ''] = idsOf(await enqueue(s, {}));
  await s.jobWhen(id, 'failed');
  t.is((await s.ask('POST', `/jobs/${id}/retry`)).status, 202);
  t.like(await jobOf(s, id), { status: 'queued', waiting_reason: 'rate_limited' });
  t.is((await s.ask('POST', `/jobs/${id}/cancel`)).status, 200);
});

test('priority decides who starts next, and a concurrency key is asked after the rate', async (t) => {
  const s = await controlled({ rate: { per_second: 0.01 } });
  const [first = ''] = idsOf(await enqueue(s, { payload: 1 }));
  await s.jobWhen(first, 'succeeded');
  const [low = '', high = ''] = idsOf(await enqueue(s, { jobs: [{}, { priority: 9, concurrency_key: 'k' }] }));
  t.like(await jobOf(s, high), { waiting_reason: 'rate_limited' });
  await pass(s, 100);
  await s.jobWhen(high, 'succeeded');
  t.is((await jobOf(s, low)).status, 'queued');
});

test('a call takes a start of the rate: one that would wait too long is refused, and says for how long', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, echo, { rate: { per_second: 0.01 } });
  const call = (headers = {}) =>
    client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
      token: user.token,
      body: { payload: 1 },
      headers,
    });
  t.is((await call()).status, 200);
  const { status, body, headers } = await call();
  t.is(status, 429);
  t.is(body.code, 'rate_limited');
  const seconds = Number(headers.get('retry-after'));
  t.true(seconds > 30 && seconds <= 100, String(seconds));
  t.is((await client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: 1 })).status, 429);
  const later = await call({ prefer: 'respond-async' });
  t.is(later.status, 202);
  const job = await client.call('GET', `/projects/${project.id}/jobs/${later.body.job_id}`, { token: user.token });
  t.is(job.body.waiting_reason, 'rate_limited');
});

test('a call waits for the rate while its caller waits', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, echo, { rate: { per_second: 4 } });
  const calls = await Promise.all([1, 2, 3].map((n) => client.invoke(user, project, fn, n)));
  t.deepEqual(
    calls.map(({ status, body }) => [status, body.status]),
    [1, 2, 3].map(() => [200, 'success']),
  );
});

test('however many ask at once, a bucket gives what it has and no more', async (t) => {
  const { db } = platform();
  const [fn, rate] = [newId(), { per_second: 0.001, burst: 5 }];
  const answers = await Promise.allSettled(Array.from({ length: 40 }, () => takeStart(db, fn, rate, 1000)));
  t.is(answers.filter(({ status }) => status === 'fulfilled').length, 5);
  const refused = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as ServiceError] : []));
  t.deepEqual(new Set(refused.map(({ code }) => code)), new Set(['rate_limited']));
});

test.serial('when the clock of the database was set back, a rate is used up for a minute more at most', async (t) => {
  const { db } = platform();
  const [fn, rate] = [newId(), { per_second: 10, burst: 1 }];
  await takeStart(db, fn, rate, 1000);
  await db.query(`update function_rates set used_until = now() + interval '5 hours' where function_id = $1`, [fn]);
  const wait = await takeStart(db, fn, rate, 60_000).catch((error: ServiceError) => error);
  t.true(wait instanceof Error || wait <= 61_000);
  const s = await controlled({ rate: { per_second: 10, burst: 10 } });
  await hold('pause');
  const [id = ''] = idsOf(await enqueue(s, {}));
  await db.query(
    `update jobs set slot_at = now() + interval '5 hours', next_run_at = now() + interval '5 hours' where id = $1`,
    [id],
  );
  await renewStarts(db);
  await hold('resume');
  await s.jobWhen(id, 'succeeded');
});

test.serial('beside callers that use all of a rate, one job at a time gets a start behind theirs', async (t) => {
  const s = await controlled({ rate: { per_second: 1 } });
  const { db } = platform();
  await hold('pause');
  await db.query(`insert into function_rates (function_id, used_until) values ($1, now() + interval '30 seconds')`, [
    s.fn.id,
  ]);
  const ids = idsOf(await enqueue(s, { payloads: [1, 2, 3] }));
  await releaseHeld(db, s.fn.id, 1000);
  await releaseHeld(db, s.fn.id, 1000);
  const rows = await db.query<{ reserved: boolean }>(
    'select next_run_at = slot_at as reserved from jobs where id = any ($1::uuid[]) order by id',
    [ids],
  );
  t.is(rows.filter(({ reserved }) => reserved).length, 1);
  await hold('resume');
});

test('of jobs with one key the last payload runs, once nothing came for so long', async (t) => {
  const s = await controlled({ debounce_ms: 3_600_000 });
  const [first] = await enqueue(s, { payload: 'a1', unique_key: 'a' });
  const [second] = await enqueue(s, { payload: 'a2', unique_key: 'a' });
  const [other, same, without] = await enqueue(s, {
    jobs: [{ payload: 'b1', unique_key: 'b' }, { payload: 'b2', unique_key: 'b' }, { payload: 'none' }],
  });
  t.is(first?.status, 'queued');
  t.deepEqual(second, { job_id: first?.job_id ?? '', status: 'duplicate' });
  t.deepEqual(same, { job_id: other?.job_id ?? '', status: 'duplicate' });
  t.like(await jobOf(s, first?.job_id ?? ''), { status: 'queued', waiting_reason: 'debounce' });
  t.like((await s.ask('GET', '/queue')).body, { held: { rate_limited: 0, debounce: 3, batch: 0 } });
  await pass(s, 3600);
  const results = [];
  for (const { job_id: id } of [first, other, without].flatMap((job) => job ?? [])) {
    results.push((await s.jobWhen(id, 'succeeded')).result.result.payload);
  }
  t.deepEqual(results, ['a2', 'b2', 'none']);
  const [next] = await enqueue(s, { payload: 'a3', unique_key: 'a' });
  t.is(next?.status, 'queued');
  t.not(next?.job_id, first?.job_id);
});

test('fifty jobs with one key at the same moment are one, and a cancelled one keeps nobody away', async (t) => {
  const s = await controlled({ debounce_ms: 3_600_000 });
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => enqueue(s, { payload: n, unique_key: 'k' })));
  const ids = new Set(answers.flatMap(idsOf));
  t.is(ids.size, 1);
  t.is(answers.flat().filter(({ status }) => status === 'queued').length, 1);
  const [id = ''] = ids;
  await s.ask('POST', `/jobs/${id}/cancel`);
  const [next] = await enqueue(s, { unique_key: 'k' });
  t.is(next?.status, 'queued');
  t.is((await s.ask('POST', `/jobs/${id}/retry`)).status, 202, 'an old one that is run again stands for itself');
  await s.jobWhen(id, 'succeeded');
});

test('a function whose jobs cannot be released just now holds up nobody else’s', async (t) => {
  const [held, other] = [await controlled({ rate: { per_second: 0.001 } }), await scene(echo)];
  await enqueue(held, { payloads: [1, 2] });
  const { db } = platform();
  const blocked = async () => {
    const rows = await db.query<{ pid: number; since: Date }>(
      `select pid, query_start as since from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%function_rates%for update%'`,
    );
    return rows[0];
  };
  await db.transaction(async (tx) => {
    await tx.query('select from function_rates where function_id = $1 for update', [held.fn.id]);
    const waiting = await until(blocked);
    for (const payload of [1, 2]) {
      const [id = ''] = idsOf(await enqueue(other, { payload, delay_ms: 10 }));
      await other.jobWhen(id, 'succeeded');
    }
    t.deepEqual(await blocked(), waiting, 'the jobs ran while the same statement waited');
  }, systemActor);
});

test('a full batch is one run with all payloads; its jobs end with it and there is one invocation', async (t) => {
  const s = await controlled({ batch: { max_size: 3, max_wait_ms: 3_600_000 } });
  const [early = ''] = idsOf(await enqueue(s, { payload: { n: 1 } }));
  t.like(await jobOf(s, early), { status: 'queued', waiting_reason: 'batch' });
  t.like((await s.ask('GET', '/queue')).body, { waiting: 1, held: { rate_limited: 0, debounce: 0, batch: 1 } });
  const raw = '{"payloads": ["\\ud800\\u0000", 12345678901234567890]}';
  const added = await s.ask('POST', `/functions/${s.fn.id}/jobs`, { raw });
  const ids = [early, ...idsOf(added.body.jobs as readonly Enqueued[])];
  const ended = [];
  for (const id of ids) ended.push(await s.jobWhen(id, 'succeeded'));
  t.is(new Set(ended.map(({ result }) => result.invocation_id)).size, 1);
  t.deepEqual(ended[0]?.result.result.payload.slice(0, 2), [{ n: 1 }, '\ud800\0']);
  t.is(ended[0]?.result.result.by, 'job');
  t.is(await invocationsOf(s), 1);
  const [{ data } = { data: '' }] = await platform().db.query<{ data: string }>('select data from jobs where id = $1', [
    ended[0]?.result.invocation_id,
  ]);
  t.true(data.includes('12345678901234567890'));
});

test('of jobs with long payloads no more is read than a batch takes', async (t) => {
  const s = await controlled({ batch: { max_size: 1000, max_wait_ms: 3_600_000 } });
  const { db } = platform();
  const given = { function_id: s.fn.id, version: 1, trigger: 'api', payload: JSON.stringify('x'.repeat(2_000_000)) };
  const lengths: number[] = [];
  const undone = new Error('undone');
  const work = db.transaction(async (tx) => {
    await tx.query(
      `insert into jobs (id, project_id, type, status, data, max_attempts, request_id, flow_of, next_run_at)
       select uuid_v7(), $1, 'function.invoke', 'queued', $2, 3, 'long', $3, 'infinity' from generate_series(1, 10)`,
      [s.project.id, JSON.stringify(given), s.fn.id],
    );
    const noting: Tx = {
      kind: 'transaction',
      query: async (sql, values, name) => {
        const rows = await tx.query<never>(sql, values, name);
        if (name === 'buffered-jobs')
          lengths.push(rows.reduce((sum, { data }: { readonly data: string }) => sum + data.length, 0));
        return rows;
      },
    };
    await releaseHeld({ ...db, transaction: (release) => release(noting) }, s.fn.id, 0);
    throw undone;
  }, systemActor);
  t.is(await t.throwsAsync(work), undone);
  t.is(lengths.length, 4, 'three batches of three, and one job is left');
  for (const length of lengths) t.true(length <= 6 * 1024 * 1024, `${length}`);
});

test('a batch that is not full runs when its first job has waited long enough, or when batches are given up', async (t) => {
  const s = await controlled({ batch: { max_size: 10, max_wait_ms: 3_600_000 } });
  const ids = idsOf(await enqueue(s, { payloads: [1, 2] }));
  await pass(s, 3600);
  for (const id of ids) t.deepEqual((await s.jobWhen(id, 'succeeded')).result.result.payload, [1, 2]);
  const [left = ''] = idsOf(await enqueue(s, { payload: 3 }));
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { batch: null } });
  t.is((await s.jobWhen(left, 'succeeded')).result.result.payload, 3);
});

test('the jobs of a failed batch fail with it; one of them can be run again, in another batch', async (t) => {
  const s = await controlled(
    { batch: { max_size: 2, max_wait_ms: 3_600_000 } },
    'export const handler = (all) => { if (all[0] === 1) throw new Error("one"); return all; };',
  );
  const ids = idsOf(await enqueue(s, { payloads: [1, 2] }));
  for (const id of ids) t.is((await s.jobWhen(id, 'failed')).error.code, 'error');
  t.is((await s.ask('POST', `/jobs/${ids[1]}/retry`)).status, 202);
  t.like(await jobOf(s, ids[1] ?? ''), { waiting_reason: 'batch' });
  const [third = ''] = idsOf(await enqueue(s, { payload: 3 }));
  t.deepEqual((await s.jobWhen(third, 'succeeded')).result.result, [2, 3]);
  t.is((await s.jobWhen(ids[1] ?? '', 'succeeded')).error, null);
});

test('batches count against the rate, and a job that is in one is cancelled with it only', async (t) => {
  const s = await controlled({ rate: { per_second: 0.001 }, batch: { max_size: 2, max_wait_ms: 3_600_000 } });
  const ids = idsOf(await enqueue(s, { payloads: [1, 2, 3, 4] }));
  for (const id of ids.slice(0, 2)) await s.jobWhen(id, 'succeeded');
  await until(async () => {
    const rows = await platform().db.query('select from jobs where id = $1 and batch_id is not null', [ids[2]]);
    return rows.length > 0;
  });
  t.is((await s.ask('POST', `/jobs/${ids[2]}/cancel`)).status, 409);
  const { body } = await s.ask('POST', '/jobs/cancel', { body: { filter: { status: 'queued' } } });
  t.true(body.changed >= 1);
  await s.jobWhen(ids[2] ?? '', 'cancelled');
  t.is((await jobOf(s, ids[3] ?? '')).status, 'cancelled');
});

test('a schedule’s jobs keep to the rate of their function', async (t) => {
  const s = await controlled({ rate: { per_second: 0.001 } });
  const target = { type: 'function', function_id: s.fn.id };
  const made = await s.ask('POST', '/cron', {
    body: { name: 'often', schedule: '@yearly', timezone: 'UTC', target, payload: {}, overlap: 'allow' },
  });
  const runs = [1, 2].map(() => s.ask('POST', `/cron/${made.body.id}/run`));
  const ids = (await Promise.all(runs)).map(({ body }) => String(body.job_id));
  await until(async () => (await statusesOf(s, ids)).includes('succeeded'));
  const waiting = (await Promise.all(ids.map((id) => jobOf(s, id)))).filter(({ status }) => status === 'queued');
  t.deepEqual(
    waiting.map(({ waiting_reason: why }) => why),
    ['rate_limited'],
  );
});

test.serial(
  'however many processes let jobs go at once, each start is given to one job, and none beyond the rate',
  async (t) => {
    const s = await controlled({ rate: { per_second: 0.001, burst: 3 } });
    const { db } = platform();
    await hold('pause');
    await db.query(
      `insert into function_rates (function_id, used_until) values ($1, now() + interval '2000 seconds')`,
      [s.fn.id],
    );
    const ids = idsOf(await enqueue(s, { payloads: [1, 2, 3, 4, 5, 6, 7, 8] }));
    await pass(s, 2000);
    const released = await Promise.all(Array.from({ length: 20 }, () => releaseHeld(db, s.fn.id, 0)));
    const rows = await db.query<{ id: string; due: boolean }>(
      `select id, next_run_at is null as due from jobs where id = any ($1::uuid[]) and slot_at is not null order by id`,
      [ids],
    );
    t.true(rows.filter(({ due }) => due).length <= 3);
    t.true(rows.length <= 4, 'and one behind them');
    const ready = released.flatMap((each) => each.ready).map(({ id }) => id);
    t.is(new Set(ready).size, ready.length);
    await hold('resume');
  },
);

test('what is held is bounded as waiting jobs are; a key that waits may get another payload all the same', async (t) => {
  const s = await controlled({ debounce_ms: 3_600_000, rate: { per_second: 0.001 } });
  await platform().db.transaction(
    (tx) =>
      tx.query(`insert into job_limits (project_id, type, waiting) values ($1, 'function.invoke', 3)`, [s.project.id]),
    systemActor,
  );
  await enqueue(s, withKeys('a', 'b', 'c'));
  const path = `/functions/${s.fn.id}/jobs`;
  t.is((await s.ask('POST', path, { body: withKeys('d') })).body.code, 'queue_full');
  t.is((await s.ask('POST', path, { body: { unique_key: 'a', payload: 2 } })).status, 202);
  const headers = { prefer: 'respond-async' };
  const invoked = await s.ask('POST', `/functions/${s.fn.id}/invoke`, { body: { payload: 1 }, headers });
  t.is(invoked.body.code, 'queue_full');
});

test('the jobs that a function holds end when it is deleted', async (t) => {
  const s = await controlled({ rate: { per_second: 0.001 }, batch: { max_size: 9, max_wait_ms: 3_600_000 } });
  const ids = idsOf(await enqueue(s, { payloads: [1, 2] }));
  t.is((await s.ask('DELETE', `/functions/${s.fn.id}`)).status, 204);
  for (const id of ids) t.is((await s.jobWhen(id, 'failed')).error.code, 'not_found');
});
