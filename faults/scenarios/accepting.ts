import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

const killedBeforeTheGate: Scenario = {
  name: 'accepting process killed before the gate',
  did: 'a process writes the rows of 100 jobs and is killed before the gate hears of them',
  run: async (scene) => {
    await scene.startWorkers(2);
    const producer = await scene.produce({ way: 'rows', count: 100 });
    scene.faultBegins();
    await producer.end;
    scene.faultIsOver();
  },
};

const addedThrice: Scenario = {
  name: 'every add three times',
  did: 'each accepted job is given to the gate three times, by two processes under load',
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene, { way: 'thrice' });
    scene.faultBegins();
    await answered(load);
    scene.faultIsOver();
  },
};

const acceptingKilled: Scenario = {
  name: 'accepting process killed',
  did: 'kill -9 of one of two accepting processes while its callers wait; what it accepted runs',
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene);
    await amidst(800);
    scene.faultBegins();
    load[1]?.signal('SIGKILL');
    scene.faultIsOver();
    await answered(load);
  },
};

const redisFull: Scenario = {
  name: 'Redis out of memory',
  did: 'maxmemory of Redis set below what it holds for 3 s under load (noeviction)',
  run: async (scene) => {
    await scene.startWorkers(2);
    const load = await underLoad(scene, { count: 250 });
    await amidst(800);
    scene.faultBegins();
    await scene.redis.config('SET', 'maxmemory', '1mb');
    await amidst(3000);
    await scene.redis.config('SET', 'maxmemory', '0');
    scene.faultIsOver();
    await answered(load);
    const codes = new Set(scene.journal().flatMap((line) => (line.what === 'refused' ? [line.code] : [])));
    codes.delete('dependency_unavailable');
    return codes.size === 0 ? [] : [`refused with ${[...codes].join(', ')}`];
  },
};

export const acceptScenarios: readonly Scenario[] = [killedBeforeTheGate, addedThrice, acceptingKilled, redisFull];
