import test from 'ava';
import { openJobs } from '#domain/jobs/open.ts';
import { changeInBulk } from '#domain/jobs/bulk.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { memoryLog, opsToken, usePlatform } from '#test/support/platform.ts';
import { jobs as jobDefinitions } from '#queues/registry.ts';
import { type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

// Without a worker: jobs stay as they are put.
const platform = usePlatform(test, { worker: false });

const ask = (method: string, path: string, body?: unknown) =>
  platform().client.call(method, `/ops/api${path}`, { token: opsToken, ...(body !== undefined && { body }) });

const bulk = (action: 'retry' | 'cancel', filter: object, more: object = {}) =>
  ask('POST', `/jobs/${action}`, { filter, ...more });

const statusesOf = async (ids: readonly string[]): Promise<string[]> => {
  const rows = await platform().db.query<{ status: string }>(
    'select status from jobs where id = any ($1) order by id',
    [ids],
  );
  return [...new Set(rows.map(({ status }) => status))];
};

const newProject = async (): Promise<SeededProject> => {
  const [project] = await seedProjects(platform().db, 1);
  if (project === undefined) throw new Error('it was seeded');
  return project;
};

test('a filter that names nothing is 400, and so is a status in which nothing can be done', async (t) => {
  for (const action of ['retry', 'cancel'] as const) {
    t.is((await bulk(action, {})).status, 400);
    t.is((await ask('POST', `/jobs/${action}`, {})).status, 400);
    t.is((await bulk(action, { colour: 'red' })).status, 400);
  }
  t.is((await bulk('retry', { status: 'queued' })).status, 400);
  t.is((await bulk('cancel', { status: 'dead' })).status, 400);
});

test('a dry run counts and changes nothing', async (t) => {
  const { id } = await newProject();
  const ids = await seedJobs(platform().db, [dead(id), dead(id), { projectId: id, status: 'succeeded' }]);
  const answer = await bulk('retry', { project_id: id }, { dry_run: true });
  t.deepEqual([answer.status, answer.body], [200, { matched: 2, changed: 0 }]);
  t.deepEqual((await statusesOf(ids)).toSorted(), ['dead', 'succeeded']);
});

test('more jobs than a batch are retried and then cancelled, those of others are left alone', async (t) => {
  const [mine, theirs] = [await newProject(), await newProject()];
  const ids = await seedJobs(
    platform().db,
    Array.from({ length: 450 }, (_, i) => dead(mine.id, { secondsAgo: 10 + i })),
  );
  const others = await seedJobs(platform().db, [dead(theirs.id)]);
  const retried = await bulk('retry', { project: mine.ref, error_code: 'dependency_unavailable' });
  t.deepEqual(retried.body, { matched: 450, changed: 450 });
  t.deepEqual(await statusesOf(ids), ['queued']);
  const cancelled = await bulk('cancel', { project_id: mine.id });
  t.deepEqual(cancelled.body, { matched: 450, changed: 450 });
  t.deepEqual(await statusesOf(ids), ['cancelled']);
  t.deepEqual(await statusesOf(others), ['dead']);
});

/** How many statements of a caller's own a bulk change of so many waiting jobs has, beside the two that find them. */
const statementsFor = async (count: number): Promise<{ changed: number; updates: number }> => {
  const { config, db } = platform();
  const { id } = await newProject();
  await seedJobs(
    db,
    Array.from({ length: count }, () => ({ projectId: id, status: 'queued' })),
  );
  let updates = 0;
  const counting: ControlDb = {
    ...db,
    query: (sql, values, name) => {
      updates += 1;
      return db.query(sql, values, name);
    },
  };
  const { jobs, close } = openJobs({ config, log: memoryLog().log, db: counting, jobs: jobDefinitions });
  try {
    const order = { action: 'cancel', filter: { projectIds: [id] }, dryRun: false } as const;
    return { changed: (await changeInBulk(db, jobs, order)).changed, updates };
  } finally {
    await close();
  }
};

test('waiting jobs are cancelled 200 a statement, and leave an event only where somebody subscribes', async (t) => {
  const { changed, updates } = await statementsFor(450);
  t.is(changed, 450);
  t.true(updates <= 6, `${updates} statements`);
  t.deepEqual(await platform().db.query('select count(*)::int as n from outbox_events'), [{ n: 0 }]);
});

test('jobs are found by request, function, project, time and the text of their error', async (t) => {
  const { db } = platform();
  const project = await newProject();
  const functionId = newId();
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into functions (id, project_id, slug, name, language, entry_point, code, compiled, timeout_ms,
           memory_mb, version) values ($1, $2, 'checkout', 'Check out', 'javascript', 'handler', '', '', 1000, 64, 1)`,
        [functionId, project.id],
      ),
    { 'plinth.actor': '{"type":"system"}' },
  );
  const [old = '', fresh = '', other = ''] = await seedJobs(db, [
    { projectId: project.id, status: 'failed', errorCode: 'timeout', secondsAgo: 7200 },
    { projectId: project.id, status: 'failed', errorCode: 'error', secondsAgo: 60 },
    { projectId: project.id, status: 'failed', errorCode: 'error', secondsAgo: 50 },
  ]);
  await db.query(`update jobs set request_id = 'the-request' where id = $1`, [old]);
  await db.query(`update jobs set error_message = 'Out of 100% stock_x' where id = $1`, [fresh]);
  await db.query(
    `update jobs set data = replace(data, substring(data from '"function_id":"([^"]*)"'), $2) where id = $1`,
    [other, functionId],
  );
  const find = async (query: Record<string, string>) => {
    const { status, body } = await ask(
      'GET',
      `/jobs?${new URLSearchParams({ project: project.ref, ...query }).toString()}`,
    );
    t.is(status, 200, JSON.stringify(body));
    return body.jobs.map(({ id }: { id: string }) => id);
  };
  t.deepEqual(await find({ request_id: 'the-request' }), [old]);
  t.deepEqual(await find({ error: 'OF 100% stock_' }), [fresh]);
  t.deepEqual(await find({ error: '1%0' }), [], 'no wildcards');
  for (const name of ['checkout', 'check OUT', functionId]) t.deepEqual(await find({ function: name }), [other], name);
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
  t.deepEqual(await find({ since: hourAgo }), [other, fresh]);
  t.deepEqual(await find({ until: hourAgo }), [old]);
  t.deepEqual(await find({ function: 'nothing-like-that' }), []);
  const { body } = await ask('GET', `/jobs?function=checkout&project=${encodeURIComponent(project.ref)}`);
  t.like(body.jobs[0], { function_id: functionId, function_name: 'Check out', project_name: project.name });
  t.is((await ask('GET', '/jobs?since=yesterday')).status, 400);
});

test('the payload of a caller does not make a job one of another function', async (t) => {
  const project = await newProject();
  const [id = ''] = await seedJobs(platform().db, [{ projectId: project.id, status: 'failed', errorCode: 'error' }]);
  const forged = newId();
  await platform().db.query(`update jobs set data = $2 where id = $1`, [
    id,
    JSON.stringify({ function_id: newId(), version: 1, trigger: 'api', payload: `{"function_id":"${forged}"}` }),
  ]);
  const { body } = await ask('GET', `/jobs/${id}`);
  t.not(body.function_id, forged);
});

test('what is wrong now names the failures of the hour by project, and the missing worker before them', async (t) => {
  const project = await newProject();
  await seedJobs(
    platform().db,
    Array.from({ length: 6 }, () => ({ projectId: project.id, status: 'failed', errorCode: 'memory_limit' })),
  );
  const { status, body } = await ask('GET', '/trouble');
  t.is(status, 200);
  const titles: string[] = body.troubles.map(({ title }: { title: string }) => title);
  const failure = body.troubles.find(({ title }: { title: string }) => title.includes('memory_limit'));
  t.like(failure, { title: '6 function.invoke failed with memory_limit in the last hour', severity: 'warn' });
  t.true(failure.detail.includes(`All in ${project.name}.`), failure.detail);
  t.regex(
    titles[0] ?? '',
    /^No worker is alive for .*vectors\.upsert/,
    'what may be the cause of the rest comes first',
  );
});
