import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

const batch = { max_size: 3, max_wait_ms: 3_600_000 };

test('after a kill -9 in a batch its jobs end with it: failed, or by a second run where its policy has one', async (t) => {
  t.timeout(longTestMs);
  const { client, config, db, startWorker } = platform();
  const first = startProcess('workers/server.ts', environmentOf(config));
  await first.ready;
  const user = await client.signUp();
  const project = await client.createProject(user);
  const code = `export const handler = (payload, sdk) =>
    sdk.attempt > 1 ? payload : new Promise(() => {});`;
  const once = await client.deploy(user, project, code, { name: 'once', batch, timeout_ms: 60_000 });
  const retry = { max_attempts: 2, base_ms: 0, max_ms: 0, on: ['crashed'] };
  const twice = await client.deploy(user, project, code, { name: 'twice', batch, retry, timeout_ms: 60_000 });
  const enqueue = async (id: string): Promise<string[]> => {
    const path = `/projects/${project.id}/functions/${id}/jobs`;
    const { body } = await client.call('POST', path, { token: user.token, body: { payloads: [1, 2, 3] } });
    return body.jobs.map(({ job_id: jobId }: { job_id: string }) => jobId);
  };
  const [failing, repeated] = [await enqueue(once.id), await enqueue(twice.id)];
  await until(
    async () =>
      (await db.query(`select from jobs where batch_size = 3 and status = 'running' and project_id = $1`, [project.id]))
        .length === 2,
  );
  first.child.kill('SIGKILL');
  await startWorker();
  const ended = (ids: readonly string[]) =>
    until(async () => {
      const rows = await db.query<{ status: string; error_code: string | null; result: string | null }>(
        `select j.status, j.error_code, b.result from jobs j join jobs b on b.id = j.batch_id
         where j.id = any ($1::uuid[]) and j.finished_at is not null`,
        [ids],
      );
      return rows.length === ids.length && rows;
    });
  for (const row of await ended(failing)) t.like(row, { status: 'failed', error_code: 'crashed' });
  for (const row of await ended(repeated)) {
    t.is(row.status, 'succeeded');
    t.deepEqual((JSON.parse(row.result ?? '') as { result: unknown }).result, [1, 2, 3]);
  }
  const records = await db.query<{ attempt: number | null; status: string }>(
    'select attempt, status from invocations where function_id = $1 order by started_at',
    [twice.id],
  );
  t.deepEqual(
    records.map(({ status }) => status),
    ['crashed', 'success'],
    'each run has one record, and its jobs have none',
  );
});
