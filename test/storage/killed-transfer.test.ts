import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, developer, platform, project, sql } = useStorage(test, {});

const count = 600;

interface Row {
  readonly name: string;
  readonly version: string;
  readonly changed: string;
}

const rowsOf = async (folder: string): Promise<Row[]> =>
  (await sql(
    project(),
    `select name, version::text, updated_at::text as changed from storage.objects where name like '${folder}/%' order by name`,
  )) as unknown as Row[];

/** Starts the transfer, kills its worker in the middle, and has another one finish it. */
const killInTheMiddle = async (op: 'move' | 'copy', folder: string, to: string): Promise<readonly Row[]> => {
  const { client, config } = platform();
  const startWorker = () => startProcess('workers/server.ts', environmentOf(config));
  const first = startWorker();
  await first.ready;
  const token = developer().token;
  const started = await client.call('POST', `/projects/${project().id}/storage/v1/folder/${op}`, {
    token,
    headers: { prefer: 'respond-async' },
    body: { bucket: project().slug, folder, to_folder: to },
  });
  if (started.status !== 202) throw new Error(started.text);
  await until(async () => (await rowsOf(to)).length > 0);
  const before = await asAdmin(project().dbName, async (holder) => {
    await holder.query('begin');
    // No file is written from here on: the worker waits in the middle of a batch.
    await holder.query('select from plinth.storage_usage for update');
    const rows = await rowsOf(to);
    first.child.kill('SIGKILL');
    await first.end;
    await holder.query('rollback');
    return rows;
  });
  const second = startWorker();
  await second.ready;
  await until(async () => {
    const { body } = await client.call('GET', `/projects/${project().id}/jobs/${started.body.job_id}`, { token });
    if (['failed', 'dead'].includes(body.status)) throw new Error(JSON.stringify(body.error));
    return body.status === 'succeeded' && body.result.done === count;
  });
  second.child.kill('SIGTERM');
  await second.end;
  return before;
};

test.serial(
  'a transfer whose worker is killed is finished by another, and no file is moved or copied twice',
  async (t) => {
    t.timeout(2 * longTestMs);
    await platform().stopWorkers();
    const bucket = project().slug;
    const names = Array.from({ length: count }, (_, at) => `a/${String(at).padStart(4, '0')}`);
    for (let from = 0; from < count; from += 20) {
      const some = names.slice(from, from + 20);
      await Promise.all(some.map(async (name) => dataOf(await admin().from(bucket).upload(name, name))));
    }
    for (const [op, from, to] of [
      ['copy', 'a', 'b'],
      ['move', 'b', 'c'],
    ] as const) {
      const before = await killInTheMiddle(op, from, to);
      t.true(before.length > 0 && before.length < count, `${before.length} were done when the worker was killed`);
      const after = await rowsOf(to);
      t.is(after.length, count);
      // The files that were there are as they were: the same bytes, written at the same time.
      const byName = new Map(after.map((row) => [row.name, row]));
      t.deepEqual(
        before.map(({ name }) => byName.get(name)),
        before,
      );
      t.is((await rowsOf(from)).length, op === 'copy' ? count : 0);
    }
    const sample = dataOf(await admin().from(bucket).download('c/0599'));
    t.is(await sample.text(), 'a/0599');
    const [usage] = await asAdmin(project().dbName, async (client) => {
      const { rows } = await client.query<{ objects: number; bytes: number }>(
        'select objects::int, bytes::int from plinth.storage_usage',
      );
      return rows;
    });
    t.deepEqual(usage, { objects: 2 * count, bytes: 2 * count * 6 });
  },
);
