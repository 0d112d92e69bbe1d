import test from 'ava';
import { Redis } from 'ioredis';
import { insertJobs } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobMessage, JobOutcome } from '#queues/define.ts';
import { type Outcomes, outcomesIn } from '#queues/replies.ts';
import { usePlatform, memoryLog } from '#test/support/platform.ts';
import { createRecorder } from '#workers/recorder.ts';
import { type JobContext, type Processor, runJob } from '#workers/run-job.ts';

const platform = usePlatform(test, { worker: false });

let redis: Redis;
let outcomes: Outcomes;
test.before('a connection to Redis', () => {
  redis = new Redis(platform().config.REDIS_URL);
  outcomes = outcomesIn(redis, platform().config.PLINTH_REDIS_PREFIX);
});
test.after.always(() => redis.disconnect());

const succeeded = (result: string): JobOutcome => ({ status: 'succeeded', result, error: null });

/** A job as it lies in its queue, and its row as it is. */
const accepted = async (type = 'project.provision'): Promise<JobMessage> => {
  const message = { id: newId(), projectId: newId(), requestId: 'r1', data: '{}', replyTo: null };
  await insertJobs(platform().db, [{ ...message, type, maxAttempts: 3 }]);
  return message;
};

const rowOf = async ({ id }: JobMessage) => {
  const [row] = await platform().db.query(
    'select status, result, attempt, error_code, started_at, finished_at from jobs where id = $1',
    [id],
  );
  return row;
};

const payloadOf = JSON.stringify({ function_id: newId(), version: 1, trigger: 'api', payload: 'null' });

const runWith = (processor: Processor, message: JobMessage, type = 'project.provision', own: Outcomes = outcomes) => {
  const { db } = platform();
  const { log } = memoryLog();
  const recorder = createRecorder(db, log);
  const deps = { db, log, outcomes: own, recorder, processors: { [type]: processor } };
  return runJob({ ...deps, signal: new AbortController().signal }, type, message);
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

test('a job runs once and is recorded, and Redis keeps nothing of it', async (t) => {
  const message = await accepted();
  const { processor, contexts } = counting();
  await runWith(processor, message);
  t.like(contexts[0], { jobId: message.id, projectId: message.projectId, requestId: 'r1', attempt: 1 });
  t.is(contexts.length, 1);
  t.like(await rowOf(message), { status: 'succeeded', attempt: 1, result: '{"db_name":"x"}', error_code: null });
  t.is(await outcomes.find(message.id), null);
});

test('a job that was taken back never runs', async (t) => {
  const message = await accepted();
  await platform().db.query('delete from jobs where id = $1', [message.id]);
  const { processor, contexts } = counting();
  await runWith(processor, message);
  t.is(contexts.length, 0);
});

for (const status of ['succeeded', 'failed', 'cancelled', 'expired', 'dead']) {
  test(`a job that is ${status} already does not run again when its message comes once more`, async (t) => {
    const message = await accepted();
    await platform().db.query(`update jobs set status = $2, result = '"first"' where id = $1`, [message.id, status]);
    const { processor, contexts } = counting();
    await runWith(processor, message);
    t.is(contexts.length, 0);
    t.like(await rowOf(message), { status, result: '"first"' });
  });
}

test('two messages of one job at once: one runs', async (t) => {
  const message = { ...(await accepted('function.invoke')), data: payloadOf };
  const { processor, contexts } = counting();
  await Promise.all([runWith(processor, message, 'function.invoke'), runWith(processor, message, 'function.invoke')]);
  t.is(contexts.length, 1);
});

test('what is not repeatable and was begun before is crashed, not run again', async (t) => {
  const message = { ...(await accepted('function.invoke')), data: payloadOf };
  await platform().db.query(`update jobs set status = 'running', attempt = 1, run_id = $2 where id = $1`, [
    message.id,
    newId(),
  ]);
  const { processor, contexts } = counting();
  await runWith(processor, message, 'function.invoke');
  t.is(contexts.length, 0);
  t.like(await rowOf(message), { status: 'failed', error_code: 'crashed', attempt: 1 });
});

test('what is repeatable and was begun before goes on with the next attempt, three in all', async (t) => {
  for (const [before, runs, after] of [
    [1, 1, { status: 'succeeded', attempt: 2 }],
    [2, 1, { status: 'succeeded', attempt: 3 }],
    [3, 0, { status: 'failed', attempt: 3, error_code: 'crashed' }],
  ] as const) {
    const message = await accepted();
    await platform().db.query(`update jobs set status = 'running', attempt = $2, run_id = $3 where id = $1`, [
      message.id,
      before,
      newId(),
    ]);
    const { processor, contexts } = counting();
    await runWith(processor, message);
    t.is(contexts.length, runs);
    t.like(await rowOf(message), after);
  }
});

test('an outcome that a dead worker left is recorded without a second run', async (t) => {
  const message = await accepted();
  await platform().db.query(`update jobs set status = 'running', attempt = 1, run_id = $2 where id = $1`, [
    message.id,
    newId(),
  ]);
  await outcomes.publish(message.id, succeeded('"left"'), null);
  const { processor, contexts } = counting();
  await runWith(processor, message);
  t.is(contexts.length, 0);
  t.like(await rowOf(message), { status: 'succeeded', result: '"left"', attempt: 1 });
  t.is(await outcomes.find(message.id), null);
});

test('faults of ours are tried again, refusals are not', async (t) => {
  const flaky = counting((_data, { attempt }) =>
    attempt < 3 ? Promise.reject(new Error('flaky')) : Promise.resolve(succeeded('"third"')),
  );
  const first = await accepted();
  await runWith(flaky.processor, first);
  t.deepEqual(
    flaky.contexts.map(({ attempt }) => attempt),
    [1, 2, 3],
  );
  t.like(await rowOf(first), { status: 'succeeded', attempt: 3 });

  const refusing = counting(() => Promise.reject(new ServiceError('not_found', 'No such function.')));
  const second = await accepted();
  await runWith(refusing.processor, second);
  t.is(refusing.contexts.length, 1);
  t.like(await rowOf(second), { status: 'failed', error_code: 'not_found', attempt: 1 });
});

test('a job that is given up has the last word of its processor', async (t) => {
  const message = await accepted();
  const processor: Processor = {
    run: () => Promise.reject(new Error('secret detail')),
    giveUp: async (cause, { attempt }) => ({ status: 'failed', result: JSON.stringify({ attempt }), error: cause }),
  };
  await runWith(processor, message);
  t.like(await rowOf(message), { status: 'failed', error_code: 'internal', result: '{"attempt":3}' });
});

test('while Redis does not take the outcome Postgres has it, and the caller is told later', async (t) => {
  const message = await accepted();
  const told: string[] = [];
  let refusals = 3;
  const stubborn: Outcomes = {
    ...outcomes,
    publish: async (id) => {
      refusals -= 1;
      if (refusals < 0) told.push(id);
      else if (refusals < 2) t.is((await rowOf(message))?.['status'], 'succeeded');
      if (refusals >= 0) throw new Error('Redis is away');
    },
  };
  await runWith(counting().processor, message, 'project.provision', stubborn);
  t.deepEqual(told, [message.id]);
});

test('data that does not fit the job fails it', async (t) => {
  const message = { ...(await accepted('function.invoke')), data: '{"function_id":7}' };
  const { processor, contexts } = counting();
  await runWith(processor, message, 'function.invoke');
  t.is(contexts.length, 0);
  t.like(await rowOf(message), { status: 'failed', error_code: 'internal' });
});

test('a message without data reads it from the row', async (t) => {
  const message = await accepted('function.invoke');
  await platform().db.query('update jobs set data = $2 where id = $1', [message.id, payloadOf]);
  let seen: unknown;
  const { processor } = counting((data) => {
    seen = data;
    return Promise.resolve(succeeded('1'));
  });
  await runWith(processor, { ...message, data: null }, 'function.invoke');
  t.deepEqual(seen, JSON.parse(payloadOf));
});
