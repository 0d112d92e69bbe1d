import test from 'ava';
import { Redis } from 'ioredis';
import { startShardEpoch } from '#domain/jobs/queue-shards.ts';
import { insertJobs } from '#domain/jobs/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Delivery } from '#queues/consumer.ts';
import { type JobOutcome, defineJob } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { Lease } from '#queues/gate/lease.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { type Outcomes, outcomesIn } from '#queues/replies.ts';
import { signalsOn } from '#queues/signals.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { createRecorder } from '#workers/recorder.ts';
import type { JobContext, Processor } from '#workers/processor.ts';
import { runJob } from '#workers/run-job.ts';
import { trackRunning } from '#workers/running.ts';

const platform = usePlatform(test, { worker: false });

const sums = defineJob({ ...projectProvision, type: 'test.sums' });
const jobs = [sums, functionInvoke];

let redis: Redis;
let outcomes: Outcomes;
let epoch: string;
test.before('a connection to Redis, and an epoch of each shard', async () => {
  const { config, db } = platform();
  redis = new Redis(config.REDIS_URL);
  outcomes = outcomesIn(redis, config.PLINTH_REDIS_PREFIX);
  for (const { type } of jobs)
    epoch = String((await startShardEpoch(db, { name: type, type, part: { index: 0, count: 1 } })).epoch);
});
test.after.always(() => redis.disconnect());

const succeeded = (result: string): JobOutcome => ({ status: 'succeeded', result, error: null });

/** A job as it comes from its queue, and its row as it is. */
const delivered = async (type = sums.type, data = '{}'): Promise<Delivery> => {
  const [id, projectId] = [newId(), newId()];
  await insertJobs(platform().db, [{ id, projectId, type, data, maxAttempts: 3, requestId: 'r1' }]);
  return { type, shard: type, lease: { id, nonce: '1' }, projectId, epoch };
};

const rowOf = async ({ lease }: Delivery) => {
  const [row] = await platform().db.query(
    'select status, result, attempt, error_code, started_at, finished_at, next_run_at, worker_id from jobs where id = $1',
    [lease.id],
  );
  return row;
};

interface Ran {
  readonly freed: Lease[];
  readonly readmitted: string[];
  readonly retries: number[];
}

const runWith = async (
  processor: Processor,
  delivery: Delivery,
  own: Outcomes = outcomes,
  onFreed: () => void = () => undefined,
): Promise<Ran> => {
  const { db, config } = platform();
  const { log } = memoryLog();
  const ran: Ran = { freed: [], readmitted: [], retries: [] };
  await runJob(
    {
      db,
      log,
      jobs,
      workerId: newId(),
      outcomes: own,
      answers: { open: () => Promise.reject(new Error('no job here answers before its end')) },
      signals: signalsOn(redis, config.PLINTH_REDIS_PREFIX),
      recorder: createRecorder(db, log),
      running: trackRunning(),
      processors: { [delivery.type]: processor },
      isHeld: (_shard, { nonce }) => Promise.resolve(nonce === '1'),
      admitKeyed: () => Promise.resolve(),
      readmit: (_shard, { id }) => Promise.resolve(void ran.readmitted.push(id)),
      finish: (_shard, lease) => {
        ran.freed.push(lease);
        onFreed();
        return Promise.resolve();
      },
      retryIn: (_type, ms) => void ran.retries.push(ms),
    },
    delivery,
  );
  return ran;
};

/** Counts its runs. */
const counting = (run: Processor['run'] = () => Promise.resolve(succeeded('{"db_name":"x"}'))) => {
  const contexts: JobContext[] = [];
  const processor: Processor = {
    run: (data, context) => {
      contexts.push(context);
      return run(data, context);
    },
  };
  return { processor, contexts };
};

test('a job runs once and is recorded, its place is free, and Redis keeps nothing of it', async (t) => {
  const delivery = await delivered();
  const { processor, contexts } = counting();
  const { freed } = await runWith(processor, delivery);
  const { id } = delivery.lease;
  t.like(contexts[0], { jobId: id, projectId: delivery.projectId, requestId: 'r1', attempt: 1 });
  t.is(contexts.length, 1);
  t.deepEqual(freed, [delivery.lease]);
  const row = await rowOf(delivery);
  t.like(row, { status: 'succeeded', attempt: 1, result: '{"db_name":"x"}', error_code: null });
  t.true(await until(async () => (await outcomes.find(id, String(row?.['run_id']))) === null));
});

test('the caller is told before the place at the gate is given up', async (t) => {
  const delivery = await delivered();
  const order: string[] = [];
  const noting: Outcomes = {
    ...outcomes,
    publish: (end) => {
      order.push('told');
      return outcomes.publish(end);
    },
  };
  await runWith(counting().processor, delivery, noting, () => order.push('freed'));
  t.deepEqual(order, ['told', 'freed']);
});

test('a job that was taken back never runs, and its place is free', async (t) => {
  const delivery = await delivered();
  await platform().db.query('delete from jobs where id = $1', [delivery.lease.id]);
  const { processor, contexts } = counting();
  const { freed } = await runWith(processor, delivery);
  t.is(contexts.length, 0);
  t.deepEqual(freed, [delivery.lease]);
});

for (const status of ['succeeded', 'failed', 'cancelled', 'expired', 'dead']) {
  test(`a job that is ${status} already does not run again when it comes once more, and its place is free`, async (t) => {
    const delivery = await delivered();
    await platform().db.query(`update jobs set status = $2, result = '"first"' where id = $1`, [
      delivery.lease.id,
      status,
    ]);
    const { processor, contexts } = counting();
    const { freed } = await runWith(processor, delivery);
    t.is(contexts.length, 0);
    t.deepEqual(freed, [delivery.lease]);
    t.like(await rowOf(delivery), { status, result: '"first"' });
  });
}

test('one job delivered twice at once runs once', async (t) => {
  const delivery = await delivered();
  const { processor, contexts } = counting();
  await Promise.all([runWith(processor, delivery), runWith(processor, delivery)]);
  t.is(contexts.length, 1);
  t.like(await rowOf(delivery), { status: 'succeeded', attempt: 1 });
});

test('a job that runs elsewhere is left alone, and so is its place', async (t) => {
  const delivery = await delivered();
  await platform().db.query(`update jobs set status = 'running', attempt = 1, run_id = $2 where id = $1`, [
    delivery.lease.id,
    newId(),
  ]);
  const { processor, contexts } = counting();
  const { freed } = await runWith(processor, delivery);
  t.is(contexts.length, 0);
  t.deepEqual(freed, []);
  t.like(await rowOf(delivery), { status: 'running', attempt: 1 });
});

test('a job that was handed over before Redis lost its memory does not begin', async (t) => {
  const delivery = { ...(await delivered()), epoch: String(Number(epoch) - 1) };
  const { processor, contexts } = counting();
  await runWith(processor, delivery);
  t.is(contexts.length, 0);
  t.like(await rowOf(delivery), { status: 'queued', attempt: 0 });
});

test('a job that came under a lease which it has no longer does not begin', async (t) => {
  const delivery = await delivered();
  const { processor, contexts } = counting();
  await runWith(processor, { ...delivery, lease: { ...delivery.lease, nonce: '0' } });
  t.is(contexts.length, 0);
  t.like(await rowOf(delivery), { status: 'queued', attempt: 0 });
});

test('a job whose time has not come does not begin', async (t) => {
  const delivery = await delivered();
  await platform().db.query(`update jobs set next_run_at = now() + interval '1 minute' where id = $1`, [
    delivery.lease.id,
  ]);
  const { processor, contexts } = counting();
  await runWith(processor, delivery);
  t.is(contexts.length, 0);
});

test('a job that somebody wanted stopped before it began ends as cancelled, without a run', async (t) => {
  const delivery = await delivered();
  await platform().db.query('update jobs set cancel_requested_at = now() where id = $1', [delivery.lease.id]);
  const { processor, contexts } = counting();
  await runWith(processor, delivery);
  t.is(contexts.length, 0);
  t.like(await rowOf(delivery), { status: 'cancelled', error_code: 'cancelled' });
});

test('faults of ours wait for another try, up to three, then the job is dead', async (t) => {
  const delivery = await delivered();
  const { processor, contexts } = counting(() => Promise.reject(new Error('flaky')));
  for (const attempt of [1, 2]) {
    const { retries, freed } = await runWith(processor, delivery);
    t.is(retries.length, 1);
    t.true((retries[0] ?? 0) >= 50 && (retries[0] ?? 0) <= 50 + 500 * 2 ** attempt);
    t.deepEqual(freed, [delivery.lease]);
    const row = await rowOf(delivery);
    t.like(row, { status: 'queued', attempt });
    t.true(row?.['next_run_at'] instanceof Date);
    await platform().db.query('update jobs set next_run_at = null where id = $1', [delivery.lease.id]);
  }
  t.deepEqual((await runWith(processor, delivery)).retries, []);
  t.like(await rowOf(delivery), { status: 'dead', attempt: 3, error_code: 'internal' });
  t.deepEqual(
    contexts.map(({ attempt }) => attempt),
    [1, 2, 3],
  );
});

test('refusals are not tried again', async (t) => {
  const delivery = await delivered();
  const refusing = counting(() => Promise.reject(new ServiceError('not_found', 'No such function.')));
  const { retries } = await runWith(refusing.processor, delivery);
  t.is(refusing.contexts.length, 1);
  t.deepEqual(retries, []);
  t.like(await rowOf(delivery), { status: 'failed', error_code: 'not_found', attempt: 1 });
});

test('a job that is given up has the last word of its processor, which is asked until it answers', async (t) => {
  const delivery = await delivered();
  let requested = 0;
  const processor: Processor = {
    run: () => Promise.reject(new ServiceError('conflict', 'No.')),
    giveUp: ({ code }, { jobId }) => {
      requested += 1;
      return requested === 1 ? Promise.reject(new Error('away')) : Promise.resolve(JSON.stringify({ code, jobId }));
    },
  };
  await runWith(processor, delivery);
  const result = JSON.stringify({ code: 'conflict', jobId: delivery.lease.id });
  t.like(await rowOf(delivery), { status: 'failed', error_code: 'conflict', result });
});

test('while Redis does not take the outcome Postgres has it, and the caller is told later', async (t) => {
  const delivery = await delivered();
  const { id } = delivery.lease;
  await platform().db.query(`update jobs set reply_to = 'stream' where id = $1`, [id]);
  const reported = Promise.withResolvers<{ jobId: string; status: unknown; replyTo: string | null }>();
  let refusals = 1;
  const stubborn: Outcomes = {
    ...outcomes,
    publish: () => Promise.reject(new Error('Redis is away')),
    notify: async (jobId, _outcome, replyTo) => {
      refusals -= 1;
      if (refusals >= 0) throw new Error('Redis is away');
      reported.resolve({ jobId, status: (await rowOf(delivery))?.['status'], replyTo });
    },
  };
  // Its slot is free at once: a Redis that is full would keep it for long.
  await runWith(counting().processor, delivery, stubborn);
  t.like(await rowOf(delivery), { status: 'succeeded' });
  t.deepEqual(await reported.promise, { jobId: id, status: 'succeeded', replyTo: 'stream' });
});

test('data that does not fit the job fails it', async (t) => {
  const delivery = await delivered(functionInvoke.type, '{"function_id":7}');
  const { processor, contexts } = counting();
  await runWith(processor, delivery);
  t.is(contexts.length, 0);
  t.like(await rowOf(delivery), { status: 'failed', error_code: 'internal' });
});

test('a processor is given the data of the row', async (t) => {
  const data = { function_id: newId(), version: 1, trigger: 'api', payload: 'null' };
  const delivery = await delivered(functionInvoke.type, JSON.stringify(data));
  let seen: unknown;
  const { processor } = counting((given) => {
    seen = given;
    return Promise.resolve(succeeded('1'));
  });
  await runWith(processor, delivery);
  t.deepEqual(seen, data);
});
