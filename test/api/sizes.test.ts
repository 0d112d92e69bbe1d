import test from 'ava';
import { createLimitsSweep } from '#domain/database/usage.ts';
import { readSizes, sweepProjectSizes, writeSize } from '#domain/stats/project-sizes.ts';
import { withServers } from '#test/database/limits-scene.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test);

interface Sizes {
  readonly points: readonly { readonly at: string; readonly bytes: number }[];
  readonly limit: number;
  readonly tables: readonly { schema: string; name: string; bytes: number; bytes_before: number | null }[];
}

const scene = async (): Promise<{ user: TestUser; project: TestProject }> => {
  const user = await platform().client.signUp();
  return { user, project: await platform().client.createProject(user, { plan: 'pro' }) };
};

/** The sweep as a worker's poller runs it. @returns what it complained about */
const sweep = (): Promise<string> =>
  withServers(platform(), async (servers) => {
    const { log, text } = memoryLog();
    await createLimitsSweep({ db: platform().db, servers, log })();
    return text();
  });

const asOwner = async (project: TestProject, ...statements: readonly string[]): Promise<void> =>
  asTenant(await tenantLogin(platform(), project.id, 'owner'), async (owner) => {
    for (const sql of statements) await owner.query(sql);
  });

test.serial('the size of a database and of its largest tables is kept as it grows', async (t) => {
  const { user, project } = await scene();
  const { client, db } = platform();
  const sizes = async (range = '24h', token = user.token) =>
    client.call('GET', `/projects/${project.id}/stats/sizes?range=${range}`, { token });
  const hostile = `<b>"'%`;
  const quoted = `"${hostile.replaceAll('"', '""')}"`;
  await asOwner(project, `create schema s`, `create table s.${quoted} as select generate_series(1, 20000) x`);
  await sweep();
  const first = (await sizes()).body as Sizes;
  t.is(first.points.length, 1);
  t.is(first.limit, 10 * 1024 ** 3);
  t.like(first.tables[0], { schema: 's', name: hostile });
  // A size that is measured within the same hour replaces the one before; a later hour is a point of its own.
  await db.query(`update project_sizes set at = at - interval '1 hour' where project_id = $1 and seconds = 3600`, [
    project.id,
  ]);
  await db.query(`update project_sizes set at = at - interval '1 day' where project_id = $1 and seconds = 86400`, [
    project.id,
  ]);
  await asOwner(
    project,
    `insert into s.${quoted} select generate_series(1, 20000)`,
    'create table t as select generate_series(1, 9000) x',
  );
  await sweep();
  await sweep();
  for (const range of ['24h', '7d', '30d', '1y']) {
    const { points, tables } = (await sizes(range)).body as Sizes;
    t.is(points.length, 2, range);
    t.true((points[1]?.bytes ?? 0) > (points[0]?.bytes ?? 0), range);
    const [largest] = tables;
    t.true((largest?.bytes ?? 0) > (largest?.bytes_before ?? Infinity), range);
    t.is(tables.find(({ name }) => name === 't')?.bytes_before, null);
  }
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  t.is((await sizes('24h', viewer.token)).status, 200);
  t.is((await sizes('2y')).status, 400);
  t.is((await sizes('24h', (await client.signUp()).token)).status, 404);
});

test.serial('a table that is locked whole holds up no sweep: its database is measured without tables', async (t) => {
  const { project } = await scene();
  const { db } = platform();
  await asOwner(project, 'create table held (x int)');
  await asTenant(await tenantLogin(platform(), project.id, 'owner'), async (owner) => {
    await owner.query('begin');
    await owner.query('lock table held in access exclusive mode');
    t.is(await sweep(), '');
  });
  const { points, tables } = await readSizes(db, project.id, '24h');
  t.is(points.length, 1);
  t.deepEqual(tables, []);
});

test.serial('old sizes are deleted but for the newest, and those of a deleted project are not written', async (t) => {
  const { project } = await scene();
  const { db } = platform();
  const insert = (seconds: number, age: string, bytes: number) =>
    db.query(`insert into project_sizes (project_id, seconds, at, bytes) values ($1, $2, now() - $3::interval, $4)`, [
      project.id,
      seconds,
      age,
      bytes,
    ]);
  await db.query('delete from project_sizes where project_id = $1', [project.id]);
  await insert(3600, '40 days', 1);
  await insert(3600, '35 days', 2);
  await insert(86_400, '500 days', 3);
  await insert(86_400, '450 days', 4);
  await sweepProjectSizes(db);
  const rows = await db.query(`select bytes::int as bytes from project_sizes where project_id = $1 order by bytes`, [
    project.id,
  ]);
  t.deepEqual(rows, [{ bytes: 2 }, { bytes: 4 }]);
  // Nothing was written since: the size is the one before the range.
  t.deepEqual(
    (await readSizes(db, project.id, '24h')).points.map(({ bytes }) => bytes),
    [2],
  );
  await t.notThrowsAsync(writeSize(db, crypto.randomUUID(), { bytes: 1, tables: null }));
});
