import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from './children.ts';
import type { Scene } from './scene.ts';
import type { Scenario } from './scenarios/scenario.ts';

const workers = 3;
const everyMs = 40;

const between = (min: number, max: number): number => min + Math.random() * (max - min);

type Victim = 'worker' | 'all workers' | 'producer' | 'Redis' | 'Redis halted' | 'Postgres';

/** Each as often as it stands here. */
const victims: readonly Victim[] = [
  'worker',
  'worker',
  'worker',
  'all workers',
  'producer',
  'producer',
  'Redis',
  'Redis',
  'Redis halted',
  'Postgres',
  'Postgres',
];

const anyOf = <T>(list: readonly T[]): T | undefined => list[Math.floor(Math.random() * list.length)];

/** Load that lasts as long as the soak; a producer that was killed is replaced. */
const keepProducing = (scene: Scene, until: number) => {
  const living = new Set<Child>();
  const produceOnce = async (waitMs: number): Promise<void> => {
    const count = Math.ceil((until - performance.now()) / everyMs);
    if (count <= 0) return;
    const child = await scene.produce({ waitMs, count, everyMs });
    living.add(child);
    await child.end;
    living.delete(child);
  };
  const keep = async (waitMs: number): Promise<void> => {
    while (performance.now() < until) await produceOnce(waitMs).catch(() => undefined);
  };
  const over = Promise.all([keep(0), keep(60_000)]);
  return { living: (): readonly Child[] => [...living], over };
};

const kill = async (dying: readonly Child[]): Promise<void> => {
  for (const worker of dying) worker.signal('SIGKILL');
  await Promise.all(dying.map((worker) => worker.end));
};

const strikes = (scene: Scene, producers: () => readonly Child[]): Record<Victim, () => Promise<void>> => {
  const { redis, postgres } = scene.stage.servers;
  return {
    worker: () => kill(scene.workers().slice(0, 1)),
    'all workers': () => kill(scene.workers()),
    producer: async () => anyOf(producers())?.signal('SIGKILL'),
    Redis: async () => {
      await redis.end('SIGKILL');
      await pause(between(0, 1000));
      await redis.start();
    },
    'Redis halted': async () => {
      redis.signal('SIGSTOP');
      await pause(between(500, 3000));
      redis.signal('SIGCONT');
    },
    Postgres: async () => {
      await postgres.end('SIGQUIT');
      await pause(between(0, 1000));
      await postgres.start();
    },
  };
};

/** As a supervisor does: whoever is missing is started again, and nobody waits until it is ready. */
const fillUp = (scene: Scene): void => {
  for (let missing = workers - scene.workers().length; missing > 0; missing -= 1) {
    void scene.startWorker().catch(() => undefined);
  }
};

/** Every 1 to 5 s something dies, for as long as it is told. */
export const soak = (minutes: number): Scenario => ({
  name: `soak of ${minutes} min`,
  did: 'every 1 to 5 s a random victim: a worker, all workers, a producer, Redis (killed or halted) or Postgres',
  restWithinMs: 180_000,
  run: async (scene) => {
    await scene.startWorkers(workers);
    const until = performance.now() + minutes * 60_000;
    const producers = keepProducing(scene, until);
    const strike = strikes(scene, producers.living);
    const counts = new Map<Victim, number>();
    scene.faultBegins();
    while (performance.now() < until) {
      await pause(between(1000, 5000));
      const victim = anyOf(victims) ?? 'worker';
      counts.set(victim, (counts.get(victim) ?? 0) + 1);
      await strike[victim]();
      fillUp(scene);
    }
    scene.faultIsOver();
    scene.stage.print([...counts].map(([victim, count]) => `${victim} ${count} times`).join(', '));
    await producers.over;
  },
});
