import test from 'ava';
import { requeueWaiting } from '#domain/jobs/requeue.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import { createProducer } from '#queues/producer.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

test('a job whose API died before it reached the queue is put there by the sweep', async (t) => {
  const { client, config, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'exports.handler = (payload) => payload.n + 1');
  const data = { function_id: fn.id, version: 1, trigger: 'api', payload: '{"n":41}' };
  const id = '01a1f900-0000-7000-8000-000000000001';
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, created_at)
     values ($1, $2, 'function.invoke', 'queued', $3, 'r', now() - interval '2 minutes')`,
    [id, project.id, JSON.stringify(data)],
  );
  const redis = openWorkerRedis(config.REDIS_URL, memoryLog().log);
  t.teardown(() => redis.disconnect());
  const producer = createProducer(redis, config.PLINTH_REDIS_PREFIX);
  await Promise.all([requeueWaiting(db, producer), requeueWaiting(db, producer)]);
  const job = await until(async () => {
    const { body } = await client.call('GET', `/projects/${project.id}/jobs/${id}`, { token: user.token });
    return body.status === 'queued' || body.status === 'running' ? null : body;
  });
  t.like(job, { status: 'succeeded', attempt: 1 });
  t.is(job.result.result, 42);
});

test('a job that was accepted a moment ago is left to its API', async (t) => {
  const { client, config, db } = platform();
  const project = await client.createProject(await client.signUp());
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id)
     values ('01a1f900-0000-7000-8000-000000000002', $1, 'function.invoke', 'queued', '{}', 'r')`,
    [project.id],
  );
  const redis = openWorkerRedis(config.REDIS_URL, memoryLog().log);
  t.teardown(() => redis.disconnect());
  const producer = createProducer(redis, config.PLINTH_REDIS_PREFIX);
  await requeueWaiting(db, producer);
  const [row] = await db.query<{ status: string }>(
    `select status from jobs where id = '01a1f900-0000-7000-8000-000000000002'`,
  );
  t.is(row?.status, 'queued');
});
