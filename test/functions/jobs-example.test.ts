import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const folder = path.resolve(import.meta.dirname, '../../docs/functions');
const platform = usePlatform(test, { shared: true });

test('the nightly job of the documentation makes its reports, some of them at a second attempt', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const ask = (method: string, way: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${way}`, { token: user.token, ...(body !== undefined && { body }) });
  const query = async (sql: string) => (await ask('POST', '/db/query', { sql })).body.rows;
  for (const sql of [
    'create table shops (id int primary key)',
    'insert into shops values (1), (2), (3)',
    'create table report_runs (shops int)',
    'create table reports (shop int primary key, attempt int)',
  ])
    await query(sql);
  const deploy = async (name: string, fields: object) =>
    client.deploy(user, project, await readFile(path.join(folder, `jobs/${name}.js`), 'utf8'), { name, ...fields });
  await deploy('shop-report', { retry: { max_attempts: 3, base_ms: 1 } });
  const nightly = await deploy('nightly-report', {});
  const page = await readFile(path.join(folder, 'jobs.md'), 'utf8');
  const [given = ''] = page.match(/\{\n {2}"name": "nightly report"[\s\S]*?\n\}/) ?? [];
  const made = await ask('POST', '/cron', JSON.parse(given.replace('…', nightly.id)));
  t.is(made.status, 201, made.text);
  await db.query('update schedules set next_run_at = now(), due_at = now() where id = $1', [made.body.id]);
  const reports = await until(async () => {
    const rows = await query('select shop, attempt from reports order by shop');
    return rows.length === 3 && rows;
  });
  t.deepEqual(reports, [
    { shop: 1, attempt: 2 },
    { shop: 2, attempt: 1 },
    { shop: 3, attempt: 1 },
  ]);
  t.deepEqual(await query('select shops from report_runs'), [{ shops: 3 }]);
});
