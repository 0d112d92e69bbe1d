import { setTimeout as pause } from 'node:timers/promises';
import { type Kind, jobOf } from '../jobs.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

const kill = async (worker: Child | undefined): Promise<void> => {
  worker?.signal('SIGKILL');
  await worker?.end;
};

const workerKilled: Scenario = {
  name: 'worker killed',
  did: 'kill -9 of one of three workers under load; nobody replaces it',
  run: async (scene) => {
    const [victim] = await scene.startWorkers(3);
    const load = await underLoad(scene);
    await amidst(800);
    scene.faultBegins();
    await kill(victim);
    scene.faultIsOver();
    await answered(load);
  },
};

const workerKilledUnderLongJobs: Scenario = {
  name: 'worker killed under long jobs',
  did: 'kill -9 of one of three workers while every project has jobs of 9 s running and more of them waiting',
  restWithinMs: 120_000,
  run: async (scene) => {
    const [victim] = await scene.startWorkers(3);
    await answered([await scene.produce({ kinds: ['again'], count: 16, workMs: 9000 })]);
    await amidst(500);
    scene.faultBegins();
    await kill(victim);
    scene.faultIsOver();
  },
};

const allWorkersKilled: Scenario = {
  name: 'all workers killed',
  did: 'kill -9 of all three workers under load, three new ones 1 s later',
  run: async (scene) => {
    const workers = await scene.startWorkers(3);
    const load = await underLoad(scene);
    await amidst(800);
    scene.faultBegins();
    await Promise.all(workers.map(kill));
    await pause(1000);
    await scene.startWorkers(3);
    scene.faultIsOver();
    await answered(load);
  },
};

const replace = async (scene: Scene, worker: Child): Promise<number | NodeJS.Signals | null> => {
  await scene.startWorker();
  worker.signal('SIGTERM');
  return (await worker.end).how;
};

const rollingRestart: Scenario = {
  name: 'rolling restart',
  did: 'three workers replaced one after the other (SIGTERM) under load; some jobs are longer than DRAIN_MS',
  run: async (scene) => {
    const workers = await scene.startWorkers(3);
    const load = await underLoad(scene);
    const long = await scene.produce({ kinds: ['again'], count: 2, workMs: 6000 });
    await amidst(800);
    scene.faultBegins();
    const problems: string[] = [];
    for (const worker of workers) {
      const how = await replace(scene, worker);
      if (how !== 0) problems.push(`${worker.name} ended with ${how}`);
    }
    scene.faultIsOver();
    await answered([...load, long]);
    return problems;
  },
};

const poisonJob: Scenario = {
  name: 'poison job',
  did: 'a re-runnable job that kills its worker each time, among others; workers are replaced as they die',
  restWithinMs: 120_000,
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene, { count: 60 });
    scene.faultBegins();
    await answered([await scene.produce({ kinds: ['poison'], count: 1 })]);
    const deaths = async (): Promise<number> => scene.deaths.size;
    while ((await deaths()) < 3) {
      await Promise.race(scene.workers().map((worker) => worker.end));
      await scene.startWorker();
    }
    scene.faultIsOver();
    await answered(load);
    while (!(await isDead(scene))) await pause(100);
    return scene.deaths.size === 3 ? [] : [`it took down ${scene.deaths.size} workers`];
  },
};

const isDead = async ({ db }: Scene): Promise<boolean> => {
  const [job] = await db.query<{ status: string; error_code: string | null }>(
    `select status, error_code from jobs where type = $1`,
    [jobOf('poison').type],
  );
  return job?.status === 'dead' && job.error_code === 'poison';
};

const hasEnded = async ({ db }: Scene, kind: Kind): Promise<boolean> => {
  const open = await db.query(`select from jobs where type = $1 and status in ('queued', 'running')`, [
    jobOf(kind).type,
  ]);
  return open.length === 0;
};

const blockedLoop = (name: string, did: string, workMs: number): Scenario => ({
  name,
  did,
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene, { count: 80 });
    await amidst(300);
    scene.faultBegins();
    const blocking = await scene.produce({ kinds: ['block'], count: 1, workMs });
    await answered([blocking, ...load]);
    // Its caller may have gone before it was its turn.
    while (!(await hasEnded(scene, 'block'))) await pause(100);
    scene.faultIsOver();
    const wasKilled = scene.deaths.size > 0;
    return wasKilled === workMs > 4000 ? [] : [`workers that died: ${scene.deaths.size}`];
  },
});

export const workerScenarios: readonly Scenario[] = [
  workerKilled,
  workerKilledUnderLongJobs,
  allWorkersKilled,
  rollingRestart,
  poisonJob,
  blockedLoop('event loop blocked shortly', 'a job blocks the event loop of its worker for 2.5 s', 2500),
  blockedLoop(
    'event loop blocked',
    'a job blocks the event loop for 14 s, longer than the lock (10 s): its worker ends itself after 4 s',
    14_000,
  ),
];
