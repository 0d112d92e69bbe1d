import { setTimeout as pause } from 'node:timers/promises';
import type { Scene } from '../scene.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

const stoppedImmediately: Scenario = {
  name: 'Postgres stopped at once',
  did: 'immediate stop of Postgres (SIGQUIT) under load, started again after 1 s',
  run: async (scene) => {
    const { postgres } = scene.stage.servers;
    await scene.startWorkers(3);
    const load = await underLoad(scene, { count: 200 });
    await amidst(800);
    scene.faultBegins();
    await postgres.end('SIGQUIT');
    await pause(1000);
    await postgres.start();
    scene.faultIsOver();
    await answered(load);
  },
};

/** Requests made while Postgres was away must be refused with that reason, and leave nothing. */
const refusedWhole = async (scene: Scene): Promise<string[]> => {
  const lines = scene.journal();
  const codes = new Set(lines.map((line) => (line.what === 'refused' ? line.code : 'accepted')));
  const rows = await scene.db.query('select from jobs');
  return [
    ...(codes.size === 1 && codes.has('dependency_unavailable') ? [] : [`answers: ${[...codes].join(', ')}`]),
    ...(rows.length === 0 ? [] : [`${rows.length} refused requests left a row`]),
  ];
};

const downAtAccept: Scenario = {
  name: 'Postgres down at accept',
  did: '60 requests while Postgres is down: all refused with 503; after its start 60 more',
  run: async (scene) => {
    const { postgres } = scene.stage.servers;
    await scene.startWorkers(2);
    const waiting = await scene.produce({ count: 60, everyMs: 20, startAfterMs: 500 });
    await postgres.end('SIGINT');
    scene.faultBegins();
    await waiting.end;
    await postgres.start();
    scene.faultIsOver();
    const problems = await refusedWhole(scene);
    await answered([await scene.produce({ count: 60 })]);
    return problems;
  },
};

export const postgresScenarios: readonly Scenario[] = [stoppedImmediately, downAtAccept];
