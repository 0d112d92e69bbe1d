import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = useFaultyPlatform(test);

const soon = (answer: Promise<Answer>): Promise<Answer> => {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer within 5 s')), 5000);
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
};

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'exports.handler = (x) => x');
  return { client, user, project, fn };
};

const jobsOf = (projectId: string) =>
  platform().db.query<{ id: string; status: string }>('select id, status from jobs where project_id = $1', [projectId]);

const faults = {
  refuses: () => platform().redis.refuse(),
  hangs: () => platform().redis.hang(),
} as const;

for (const [fault, begin] of Object.entries(faults)) {
  test.serial(`while Redis ${fault} jobs are refused with 503 and nothing of them is kept`, async (t) => {
    t.timeout(longTestMs);
    const { client, user, project, fn } = await scene();
    const jobsBefore = (await jobsOf(project.id)).length;
    await begin();
    const calls = [
      client.invoke(user, project, fn, 1),
      client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: 1 }),
      client.call('POST', '/projects', { token: user.token, body: { name: 'Half', slug: `half_${fault}` } }),
    ];
    for (const answer of await Promise.all(calls.map(soon))) {
      t.is(answer.status, 503);
      // A test process that lags itself does not know whether Redis is down.
      t.regex(answer.body.code, /^(dependency_unavailable|overloaded)$/);
    }
    // Requests without a queue go on.
    t.is((await client.call('GET', `/projects/${project.id}`, { token: user.token })).status, 200);
    t.is((await soon(client.call('GET', '/readyz'))).status, 503);
    t.is((await jobsOf(project.id)).length, jobsBefore);
    t.is((await platform().db.query(`select from projects where slug = $1`, [`half_${fault}`])).length, 0);
    await platform().redis.restore();
    await until(async () => (await client.invoke(user, project, fn, 7)).body.result === 7);
    await client.createProject(user, { slug: `half_${fault}` });
    // Refused jobs did not run later.
    t.true((await jobsOf(project.id)).every(({ status }) => status === 'succeeded'));
  });
}

test.serial('a job that ends while Redis is away is recorded, and the worker goes on afterwards', async (t) => {
  t.timeout(longTestMs);
  const { client, user, project, fn } = await scene();
  const code = 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 500, "done"))';
  const slow = await client.deploy(user, project, code);
  const accepted = await client.call('POST', `/projects/${project.id}/functions/${slow.id}/invoke`, {
    token: user.token,
    body: { payload: null },
    headers: { prefer: 'respond-async' },
  });
  t.is(accepted.status, 202);
  const { job_id: id } = accepted.body;
  const statusOf = async () => (await jobsOf(project.id)).find((job) => job.id === id)?.status;
  await until(async () => (await statusOf()) === 'running');
  await platform().redis.refuse();
  // Postgres knows how it ended before Redis is back.
  await until(async () => (await statusOf()) === 'succeeded');
  // 3 s of an absent Redis: that is the fault, not a way to wait.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  await platform().redis.restore();
  await until(async () => (await client.invoke(user, project, fn, 'again')).body.result === 'again');
  const job = await client.call('GET', `/projects/${project.id}/jobs/${id}`, { token: user.token });
  t.like(job.body, { status: 'succeeded', attempt: 1, error: null });
  t.is(job.body.result.result, 'done');
});

test.serial('who waits for a job that ends while Redis blinks is told when it is back', async (t) => {
  const { client, user, project } = await scene();
  const code = 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 500, "done"))';
  const slow = await client.deploy(user, project, code);
  const answer = client.invoke(user, project, slow, null);
  await until(async () => (await jobsOf(project.id)).some(({ status }) => status === 'running'));
  await platform().redis.refuse();
  await until(async () => (await jobsOf(project.id)).every(({ status }) => status === 'succeeded'));
  await platform().redis.restore();
  t.like((await answer).body, { status: 'success', result: 'done' });
});

test.serial('connections that are cut cost at most one request', async (t) => {
  const { client, user, project, fn } = await scene();
  platform().redis.cut();
  await until(async () => (await soon(client.invoke(user, project, fn, 'on'))).body.result === 'on');
  t.pass();
});
