import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const folder = path.resolve(import.meta.dirname, '../../docs/functions');
const platform = usePlatform(test);

test('the order of the documentation is charged once, waits for its parcel, and is refunded where none comes', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const ask = (method: string, way: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${way}`, { token: user.token, ...(body !== undefined && { body }) });
  const query = async (sql: string) => (await ask('POST', '/db/query', { sql })).body.rows;
  for (const sql of [
    'create table charges (id int generated always as identity, order_id int primary key, amount int)',
    'create table parcels (id int generated always as identity, order_id int)',
    'create table mails (order_id int, text text)',
  ])
    await query(sql);
  const code = await readFile(path.join(folder, 'steps/order.js'), 'utf8');
  const fn = await client.deploy(user, project, code, { name: 'order', retry: { max_attempts: 5, base_ms: 1000 } });
  const { body } = await ask('POST', `/functions/${fn.id}/jobs`, {
    payloads: [
      { order: 1, amount: 20 },
      { order: 2, amount: 30 },
    ],
  });
  const ids = (body.jobs as { job_id: string }[]).map(({ job_id: id }) => id);
  const jobWhen = (id: string | undefined, ...statuses: string[]) =>
    until(async () => {
      const job = (await ask('GET', `/jobs/${id}`)).body;
      return statuses.includes(job.status) && job;
    });
  for (const id of ids) await jobWhen(id, 'waiting', 'failed', 'dead');
  t.is((await query('select * from charges')).length, 2);

  await query('insert into parcels (order_id) values (1)');
  const sent = await jobWhen(ids[0], 'succeeded', 'failed', 'dead');
  t.like(sent.result, { status: 'success', result: { parcel: 1 } }, JSON.stringify(sent));
  t.deepEqual(
    sent.steps.map(({ name, status }: { name: string; status: string }) => [name, status]),
    [
      ['charge', 'succeeded'],
      ['table.parcels.INSERT', 'succeeded'],
      ['tell', 'succeeded'],
    ],
  );
  t.deepEqual(await query('select * from mails'), [{ order_id: 1, text: 'Parcel 1 is on its way.' }]);

  // As if two days had passed.
  await db.query(`update job_steps set due_at = now() where job_id = $1 and status = 'waiting'`, [ids[1]]);
  await db.query('update jobs set next_run_at = now() where id = $1', [ids[1]]);
  const refunded = await jobWhen(ids[1], 'succeeded', 'failed', 'dead');
  t.deepEqual(refunded.result.result, { cancelled: 2 }, JSON.stringify(refunded));
  t.deepEqual(await query('select order_id from charges'), [{ order_id: 1 }]);
});
