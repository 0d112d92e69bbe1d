import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { busyProjectsOf, rulesFrom, setOrganizationLimit } from '#domain/jobs/limits.ts';
import { openControlDb } from '#lib/control-db.ts';
import type { JobDefinition } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { type TestDatabase, createTestDatabase } from '#test/support/databases.ts';
import { insertProject } from '#test/support/engine.ts';
import { memoryLog } from '#test/support/platform.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { openGate, projects, type } from './scene.ts';

const job: JobDefinition = { ...functionInvoke, type, running: { free: 1, pro: 3, enterprise: 5 }, keepsPlaces: false };

let database: TestDatabase;
let db: ControlDb;
test.before('a control database', async () => {
  database = await createTestDatabase();
  db = openControlDb({ url: database.url, connections: 4, log: memoryLog().log });
});
test.after.always(async () => {
  await db.close();
  await database.drop();
});

const change = (sql: string, values: readonly unknown[]): Promise<unknown> =>
  db.transaction((tx) => tx.query(sql, values), systemActor);

const rules = () => rulesFrom(db, [job], 50);

test('a project’s limit is its plan’s, and another one when the plan changes', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const [free, pro] = [await insertProject(db, 'free'), await insertProject(db, 'pro')];
  await scene.admit(free, 8);
  await scene.admit(pro, 8);
  t.deepEqual([await scene.running(free), await scene.running(pro)], [1, 3]);
  await change(`update projects set plan = 'enterprise' where id = $1`, [free]);
  await scene.gate.rulesChanged({ projectId: free });
  t.is(await scene.running(free), 5);
});

test('operators’ limits go before the plan’s, each by itself', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const project = await insertProject(db, 'free');
  await change('insert into job_limits (project_id, type, running) values ($1, $2, 4)', [project, type]);
  await scene.admit(project, 10, true);
  t.is(await scene.running(project), 4);
  await change('update job_limits set running = null, waiting = 2 where project_id = $1', [project]);
  await scene.gate.rulesChanged({ type, projectId: project });
  t.is(await scene.admitOne(project, undefined, true), 'full');
});

test('a paused project waits, also with all its types; resumed, it goes on in its order', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const [project, other] = [await insertProject(db, 'pro'), await insertProject(db, 'pro')];
  for (const paused of [type, null]) {
    await change('insert into job_pauses (project_id, type) values ($1, $2)', [project, paused]);
    await scene.gate.rulesChanged({ projectId: project });
    const before = (await scene.handedOver()).length;
    const ids = await scene.admit(project, 2);
    t.is(await scene.admitOne(other), 'handed over');
    t.is((await scene.handedOver()).length, before + 1, 'only the other project’s');
    const [place] = await scene.gate.places([{ id: ids[1] ?? '', type, projectId: project }]);
    t.deepEqual(place, { state: 'waiting', position: 2, reason: 'paused' });
    await change('delete from job_pauses where project_id = $1', [project]);
    await scene.gate.rulesChanged({ projectId: project });
    t.deepEqual((await scene.handedOver()).slice(before + 1), ids);
    for (const { lease } of await scene.leases()) await scene.shard.finish(lease);
  }
});

test('a pause of another type of the project, or of another project, holds up nothing', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const [project, other] = [await insertProject(db), await insertProject(db)];
  await change(`insert into job_pauses (project_id, type) values ($1, 'other.job'), ($2, null)`, [project, other]);
  await scene.gate.rulesChanged({});
  t.is(await scene.admitOne(project), 'handed over');
});

test('a type that keeps places for callers keeps one in five of each project’s own limit', async (t) => {
  const keeping = { ...job, running: { free: 5, pro: 25, enterprise: 100 }, keepsPlaces: true };
  const scene = await openGate(t, { rules: rulesFrom(db, [keeping], 50), slots: 100 });
  const [free, own] = [await insertProject(db, 'free'), await insertProject(db, 'pro')];
  await change('insert into job_limits (project_id, type, running) values ($1, $2, 10)', [own, type]);
  for (const project of [free, own]) await scene.admit(project, 12);
  t.deepEqual([await scene.running(free), await scene.running(own)], [4, 8]);
});

const organizationOf = async (project: string): Promise<string> => {
  const [row] = await db.query<{ org_id: string }>('select org_id from projects where id = $1', [project]);
  return row?.org_id ?? '';
};

test('an organization’s limit is the setting, or what operators set for it', async (t) => {
  const sharing = { weights: { free: 1, pro: 2, enterprise: 4 }, organizationRunning: 2 };
  const scene = await openGate(t, { rules: rulesFrom(db, [job], 50, sharing), slots: 20 });
  const [one, two, three] = [await insertProject(db, 'pro'), await insertProject(db, 'pro'), await insertProject(db)];
  await change('update projects set org_id = $2, slug = $3 where id = $1', [two, await organizationOf(one), 'two']);
  for (const project of [one, two, three]) await scene.admit(project, 3);
  t.is((await scene.running(one)) + (await scene.running(two)), 2);
  t.is(await scene.running(three), 1, 'of another organization');
  const setLimit = async (running: number | null): Promise<void> => {
    const orgId = await organizationOf(one);
    await db.transaction((tx) => setOrganizationLimit(tx, orgId, type, running), systemActor);
  };
  await setLimit(5);
  t.deepEqual(new Set(await busyProjectsOf(db, await organizationOf(one), type)), new Set());
  for (const projectId of [one, two]) await scene.gate.rulesChanged({ type, projectId });
  t.is((await scene.running(one)) + (await scene.running(two)), 5);
  await setLimit(null);
  await scene.gate.rulesChanged({ type, projectId: one });
  for (const { lease } of await scene.leases()) await scene.shard.finish(lease);
  t.is((await scene.running(one)) + (await scene.running(two)), 1, 'one waits still, and two may run');
});

// Alone: it is paused for the other tests of this database too.
test.serial('a paused type hands over nothing to anybody, and what was handed over ends', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const project = await insertProject(db, 'pro');
  const [first = ''] = await scene.admit(project, 1);
  await change('insert into job_pauses (project_id, type) values (null, $1)', [type]);
  await scene.gate.rulesChanged({ type });
  await scene.admit(project, 2);
  await scene.finish(first);
  t.deepEqual(await scene.handedOver(), [first]);
  t.true((await scene.gate.stats(type)).paused);
  await change('delete from job_pauses where project_id is null', []);
  await scene.gate.rulesChanged({ type });
  t.is((await scene.handedOver()).length, 3);
});

test('a project that is gone keeps a limit, so that what waits of it flows out', async (t) => {
  const scene = await openGate(t, { rules: rules() });
  const [gone = ''] = projects(1);
  await scene.admit(gone, 3);
  t.deepEqual([await scene.running(gone), await scene.waiting(gone)], [1, 2]);
});
