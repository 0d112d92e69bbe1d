import { systemActor } from '#domain/audit/actor.ts';
import { abandonJobsOf, endTeller } from '#domain/jobs/abandon.ts';
import { markProjectDeleted } from '#domain/projects/store.ts';
import type { Scene } from '../scene.ts';
import { clock } from '../witness.ts';
import { jobOf } from '../jobs.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

const projectOf = ({ projects }: Scene): string => projects[0] ?? '';
const { type } = jobOf('again');

const setLimit = async (scene: Scene, running: number): Promise<void> => {
  const projectId = projectOf(scene);
  await scene.db.transaction(async (tx) => {
    await tx.query(
      `insert into job_limits (project_id, type, running) values ($1, $2, $3)
       on conflict (project_id, type) do update set running = excluded.running`,
      [projectId, type, running],
    );
  }, systemActor);
};

/** Jobs that were handed over before a change may still start, so long after it. */
const handedOverMs = 1500;

const loweredLimit: Scenario = {
  name: 'limit lowered while jobs run',
  did: 'the limit of one project goes from 4 to 1 while four of its jobs run, and back to 4',
  run: async (scene) => {
    const projectId = projectOf(scene);
    const change = async (limit: number): Promise<void> => {
      if (limit > 1) scene.limits.push({ type, projectId, limit, from: clock() });
      await setLimit(scene, limit);
      await scene.queues.gate.rulesChanged({ type, projectId });
      if (limit === 1) scene.limits.push({ type, projectId, limit, from: clock() + handedOverMs * 1000 });
    };
    await change(4);
    await scene.startWorkers(2);
    const load = await underLoad(scene, { projects: [projectId], kinds: ['again'], count: 60, workMs: 150 });
    await amidst(1000);
    scene.faultBegins();
    await change(1);
    await amidst(3000);
    await change(4);
    scene.faultIsOver();
    await answered(load);
  },
};

const startsOf = async (scene: Scene, from: number): Promise<number> => {
  const notes = await scene.witness.notes(scene.config.PLINTH_REDIS_PREFIX);
  return notes.filter((note) => note.what === 'start' && note.projectId === projectOf(scene) && note.at > from).length;
};

const setPause = async (scene: Scene, paused: boolean): Promise<void> => {
  const projectId = projectOf(scene);
  await scene.db.transaction(async (tx) => {
    const change = paused
      ? 'insert into job_pauses (project_id) values ($1)'
      : 'delete from job_pauses where project_id = $1';
    await tx.query(change, [projectId]);
  }, systemActor);
  await scene.queues.gate.rulesChanged({ projectId });
};

const paused: Scenario = {
  name: 'project paused under load',
  did: 'one of four projects is paused for 3 s with jobs waiting and running, then resumed',
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene, { workMs: 150 });
    await amidst(800);
    scene.faultBegins();
    await setPause(scene, true);
    await amidst(handedOverMs);
    const from = clock();
    await amidst(3000);
    const started = await startsOf(scene, from);
    await setPause(scene, false);
    scene.faultIsOver();
    await answered(load);
    return started === 0 ? [] : [`${started} jobs of the paused project started`];
  },
};

const markDeleted = ({ db }: Scene, projectId: string): Promise<void> =>
  db.transaction((tx) => markProjectDeleted(tx, projectId), systemActor);

const deleted: Scenario = {
  name: 'project deleted under load',
  did: 'one of four projects is paused and then deleted with jobs waiting and running: its jobs are cancelled',
  run: async (scene) => {
    const projectId = projectOf(scene);
    await scene.startWorkers(2);
    // Waiting callers are notified of the cancellation, long before their own time is over.
    const load = [await scene.produce({ workMs: 150 }), await scene.produce({ workMs: 150, waitMs: 300_000 })];
    const doomed = await scene.produce({ projects: [projectId], count: 40, workMs: 4000 });
    await doomed.end;
    scene.faultBegins();
    await setPause(scene, true);
    await markDeleted(scene, projectId);
    await scene.queues.gate.drop(projectId);
    await abandonJobsOf(scene.db, projectId, { maxMs: 10_000, onEnded: endTeller(scene.queues.outcomes) });
    await setPause(scene, false);
    scene.faultIsOver();
    await answered(load);
    const rows = await scene.db.query(`select from jobs where project_id = $1 and status = 'cancelled'`, [projectId]);
    return rows.length > 0 ? [] : ['no job of the deleted project was cancelled'];
  },
};

const floodSize = 100_000;

const floodedAndDeleted: Scenario = {
  name: 'project deleted with a flood',
  did: `one of four projects has ${floodSize.toLocaleString('en')} jobs waiting and is deleted under the load of the others: none of its jobs begins after that`,
  restWithinMs: 180_000,
  run: async (scene) => {
    const projectId = projectOf(scene);
    await scene.db.query(
      `insert into jobs (id, project_id, type, status, data, max_attempts, request_id)
       select uuid_v7(), $1, $2, 'queued', '{}', 1, 'flood ' || n from generate_series(1, $3) as n`,
      [projectId, type, floodSize],
    );
    await scene.startWorkers(2);
    const load = await underLoad(scene, { projects: scene.projects.slice(1), workMs: 150 });
    await amidst(800);
    scene.faultBegins();
    await markDeleted(scene, projectId);
    await scene.queues.gate.drop(projectId);
    await amidst(handedOverMs);
    const from = clock();
    const isDone = await abandonJobsOf(scene.db, projectId, {
      maxMs: 120_000,
      onEnded: endTeller(scene.queues.outcomes),
    });
    scene.faultIsOver();
    await answered(load);
    const started = await startsOf(scene, from);
    return [
      ...(isDone ? [] : ['its jobs were not cancelled in two minutes']),
      ...(started === 0 ? [] : [`${started} jobs of the deleted project started`]),
    ];
  },
};

export const ruleScenarios: readonly Scenario[] = [loweredLimit, paused, deleted, floodedAndDeleted];
