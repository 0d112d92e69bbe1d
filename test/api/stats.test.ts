import test from 'ava';
import { createProjectStats, readStats, sweepProjectStats } from '#domain/stats/project-stats.ts';
import { surfaceOf } from '#domain/stats/surfaces.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const log = { warn: () => undefined } as unknown as Log;

test('requests of a project are counted by surface, and its database has a size', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const stats = async (range = '1h') =>
    (await client.call('GET', `/projects/${project.id}/stats?range=${range}`, { token: user.token })).body;
  await client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql: 'select 1' } });
  await client.call('GET', '/v1/rest/none', { key: project.key });
  const points = await until(async () => {
    const found = (await stats()).points as { surface: string; requests: number; errors: number; p95_ms: number }[];
    return found.some(({ surface }) => surface === 'rest') && found;
  });
  const rest = points.find(({ surface }) => surface === 'rest');
  t.like(rest, { requests: 1, errors: 0 });
  t.true((rest?.p95_ms ?? 0) > 0);
  t.true(points.some(({ surface, requests }) => surface === 'management' && requests >= 1));
  t.true(Number((await stats('24h')).database_bytes) > 0);
  t.is((await client.call('GET', `/projects/${project.id}/stats?range=1y`, { token: user.token })).status, 400);
  const stranger = await client.signUp();
  t.is((await client.call('GET', `/projects/${project.id}/stats`, { token: stranger.token })).status, 404);
});

test('a write whose answer was lost, and two processes, count nothing twice', async (t) => {
  const { client, db } = platform();
  const { id: projectId } = await client.createProject(await client.signUp());
  let isLost = true;
  const losing: Queryable = {
    ...db,
    query: async (...args: Parameters<Queryable['query']>) => {
      const rows = await db.query(...args);
      if (isLost) throw new Error('the connection was lost');
      return rows;
    },
  } as Queryable;
  const [one, other] = [createProjectStats({ db: losing, log }), createProjectStats({ db, log })];
  const request = { projectId, surface: 'rest', status: 200, ms: 3 } as const;
  for (let count = 0; count < 19; count += 1) one.note(request);
  await t.throwsAsync(one.flush());
  isLost = false;
  one.note({ ...request, status: 503, ms: 40_000 });
  await one.flush();
  await one.flush();
  other.note(request);
  await Promise.all([one.stop(), other.stop()]);
  const point = (await readStats(db, projectId, '24h')).find(({ surface }) => surface === 'rest');
  t.like(point, { requests: 21, errors: 1, p95_ms: 5 });
});

test('old counts are deleted, and those of a deleted project are left out', async (t) => {
  const { client, db } = platform();
  const { id } = await client.createProject(await client.signUp());
  const insert = (seconds: number, age: string) =>
    db.query(
      `insert into project_stats (project_id, seconds, at, surface, process_id, counts)
       values ($1, $2, now() - $3::interval, 'rest', gen_random_uuid(), '{1}')`,
      [id, seconds, age],
    );
  await insert(60, '2 days');
  await insert(3600, '2 days');
  await insert(3600, '32 days');
  await sweepProjectStats(db);
  const rows = await db.query(
    `select seconds from project_stats where project_id = $1 and at < now() - interval '1 day'`,
    [id],
  );
  t.deepEqual(rows, [{ seconds: 3600 }]);
  const stats = createProjectStats({ db, log });
  stats.note({ projectId: crypto.randomUUID(), surface: 'rest', status: 200, ms: 1 });
  await t.notThrowsAsync(stats.stop());
});

test('a route belongs to one surface', (t) => {
  const of = Object.entries({
    '/v1/rest/{table}': 'rest',
    '/p/{ref}/rest/v1/{table}': 'rest',
    '/projects/{project_id}/rest/v1/{table}': 'rest',
    '/api/graphql': 'graphql',
    '/p/{ref}/auth/v1/token': 'auth',
    '/p/{ref}/storage/v1/object/{bucket}/{path}': 'storage',
    '/api/functions/{slug}': 'functions',
    '/v1/chat/completions': 'ai',
    '/p/{ref}/ofrep/v1/evaluate/flags': 'flags',
    '/projects/{project_id}/jobs': 'management',
    '/hooks/{project_id}/{provider}': 'other',
  });
  for (const [route, surface] of of) t.is(surfaceOf(route), surface as ReturnType<typeof surfaceOf>, route);
});
