import test from 'ava';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { listen } from '#test/support/sse.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = useFaultyPlatform(test);

const faults = {
  refuses: () => platform().redis.refuse(),
  hangs: () => Promise.resolve(platform().redis.hang()),
} as const;

for (const [fault, begin] of Object.entries(faults)) {
  test.serial(`while Redis ${fault} jobs are listed, and who follows one hears of its end from its row`, async (t) => {
    t.timeout(longTestMs);
    const { base, client, db, redis } = platform();
    t.teardown(() => redis.restore());
    const user = await client.signUp();
    const project = await client.createProject(user);
    const fn = await client.deploy(user, project, 'exports.handler = () => new Promise(() => {})');
    const accepted = await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
      token: user.token,
      body: { payload: null },
      headers: { prefer: 'respond-async' },
    });
    const path = `/projects/${project.id}/jobs`;
    const [id, url] = [String(accepted.body.job_id), `${base}${path}/${accepted.body.job_id}/events`];
    await until(
      async () => (await client.call('GET', `${path}/${id}`, { token: user.token })).body.status === 'running',
    );
    const early = await listen(url, user.token);
    await until(() => early.events.length === 1);
    await begin();
    const late = await listen(url, user.token);
    t.is(late.status, 200);
    await until(() => late.events.length === 1);
    const waiting = `insert into jobs (id, project_id, type, status, data, request_id)
      values (gen_random_uuid(), $1, 'function.invoke', 'queued', '{}', 'r')`;
    await db.query(waiting, [project.id]);
    const list = await client.call('GET', `${path}?status=queued`, { token: user.token });
    t.like(list.body, { total: 1, jobs: { 0: { status: 'queued', position: null, waiting_reason: null } } });
    await db.query(
      `update jobs set status = 'failed', error_code = 'crashed', error_message = 'x', finished_at = now() where id = $1`,
      [id],
    );
    await Promise.all([early.end, late.end]);
    for (const { events } of [early, late]) {
      t.deepEqual(
        events.map(({ event, data }) => [event, data.status, data.error?.code]),
        [
          ['status', 'running', undefined],
          ['status', 'failed', 'crashed'],
        ],
      );
    }
    await redis.restore();
    await until(async () => (await client.call('GET', '/readyz')).status === 200);
  });
}
