import { getPriority } from 'node:os';
import test from 'ava';
import { findSource, notePolled } from '#domain/events/subscriptions.ts';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { newId } from '#lib/ids.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';
import { createRelayConnections } from '#workers/relay/connections.ts';
import { drainSource } from '#workers/relay/relay.ts';
import { asOwner, projectWith, withServers } from '../database/limits-scene.ts';

const platform = usePlatform(test);

/** A project with a table that somebody subscribes to. */
const newSource = async (): Promise<TestProject> => {
  const project = await projectWith(platform(), { rows: null });
  await asOwner(platform(), project, (owner) => owner.query('create table t (x bigint)'));
  await keepEventsOf(platform().db, project.id);
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db: platform().db, servers }, project.id, [{ table: 't', op: null }]),
  );
  return project;
};

const insert = (project: TestProject, rows: number) =>
  asOwner(platform(), project, (owner) => owner.query(`insert into t select generate_series(1, ${rows})`));

const left = (project: TestProject): Promise<number> =>
  asAdmin(project.dbName, async (admin) => (await admin.query('select from plinth.outbox')).rowCount ?? 0);

const kept = async (project: TestProject): Promise<number> =>
  (await platform().db.query('select from outbox_events where project_id = $1', [project.id])).length;

/** The worker looks into the project's database after so long. */
const pollIn = (project: TestProject, interval: string) =>
  platform().db.query('update event_sources set looked_at = now() + $2::interval where project_id = $1', [
    project.id,
    interval,
  ]);

/** The nice values of the server processes of the project's database; null: the server is another machine's. */
const priorities = (project: TestProject): Promise<(number | null)[]> =>
  asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query<{ pid: number }>(
      'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    );
    return rows.map(({ pid }) => {
      try {
        return getPriority(pid);
      } catch {
        return null;
      }
    });
  });

test('a large backlog is taken by a server process of a low priority', async (t) => {
  const project = await newSource();
  await insert(project, 1200);
  await pollIn(project, '-1 hour');
  await until(async () => (await left(project)) === 0);
  const found = await priorities(project);
  t.true(found.includes(10) || found.includes(null), String(found));
});

test('events stay in the outbox until what was kept of them lasts', async (t) => {
  const { db } = platform();
  const project = await newSource();
  await pollIn(project, '1 hour');
  await insert(project, 3);
  const source = await findSource(db, project.id);
  const seen: number[] = [];
  const fails = async (): Promise<void> => {
    seen.push(await kept(project), await left(project));
    throw new Error('the disk is gone');
  };
  const slowly = async (): Promise<void> => {
    await notePolled(db, project.id);
    await db.query('select pg_sleep(0.06)');
  };
  await withServers(platform(), async (servers) => {
    const connections = createRelayConnections({ servers, max: 1 });
    const turn = (untilLasting: () => Promise<void>) =>
      drainSource({ db, connections, log: memoryLog().log, untilLasting }, source as never);
    await t.throwsAsync(turn(fails), { message: 'the disk is gone' });
    t.deepEqual([...seen, await left(project)], [3, 3, 3]);
    t.false(await turn(slowly), 'a turn of more than 50 ms leaves nothing of three events');
    await connections.close();
  });
  t.deepEqual([await kept(project), await left(project)], [3, 0]);
  await t.throwsAsync(notePolled(db, newId()));
});
