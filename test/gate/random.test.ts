import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { newId } from '#lib/ids.ts';
import { type GateScene, openGate, projects, type } from './scene.ts';

/** Numbers that look random and are the same in each run. */
type Dice = (below: number) => number;

const diceOf = (seed: string): Dice => {
  let turn = 0;
  return (below) => {
    turn += 1;
    return createHash('sha256').update(`${seed} ${turn}`).digest().readUInt32BE() % below;
  };
};

const waitingOf = ({ redis, prefix }: GateScene, project: string): Promise<string[]> =>
  redis.zrange(`{${prefix}:${type}}:gate:pend:${project}`, 0, '-1');

/** Actions of clients, workers and operators on a gate, the most frequent first. */
const stepsOf = (scene: GateScene, all: readonly string[], roll: Dice): readonly (() => Promise<unknown>)[] => {
  const pick = (): string => all[roll(all.length)] ?? '';
  const [other] = projects(1);
  return [
    () => Promise.all(Array.from({ length: 1 + roll(30) }, () => scene.admitOne(pick()))),
    () => scene.admit(pick(), 1 + roll(5)),
    async () => {
      const leases = await scene.leases();
      const some = leases.filter(() => roll(3) === 0);
      await Promise.all([...some, ...some.slice(0, 1)].map(({ lease }) => scene.shard.finish(lease)));
    },
    async () => {
      const projectId = pick();
      const leased = (await scene.leases()).filter((one) => one.projectId === projectId).map(({ lease }) => lease.id);
      const known = [...(await waitingOf(scene, projectId)), ...leased].filter(() => roll(4) === 0);
      await scene.shard.withdraw([...known, newId()].map((id) => ({ id, projectId })));
    },
    () => {
      const project = pick();
      if (!scene.paused.delete(project)) scene.paused.add(project);
      return scene.gate.rulesChanged({ type });
    },
    () => {
      const project = pick();
      scene.limits.set(project, { running: roll(5), waiting: 1000 });
      return scene.gate.rulesChanged({ type, projectId: project });
    },
    async () => scene.shard.renew((await scene.leases()).slice(0, roll(3)).map(({ lease }) => ({ id: lease.id }))),
    () => scene.shard.forgetIdle(),
    () => scene.beat(roll(9)),
    () => scene.beat(roll(3), other),
  ];
};

const pairs = (flat: readonly string[]): Record<string, number> =>
  Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, Number(flat[i + 1])]] : [])));

const positive = (counts: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...counts].filter(([, count]) => count > 0));

/** Holds the gate's counters against its lists, and what runs against what may. */
const check = async (
  t: ExecutionContext,
  scene: GateScene,
  before: ReadonlyMap<string, number>,
  at: string,
): Promise<Map<string, number>> => {
  const leases = await scene.leases();
  const [run, backlog, conf] = await Promise.all([
    scene.shard.inspect.running(),
    scene.shard.inspect.backlog(1000),
    scene.shard.inspect.conf(),
  ]);
  const [running, waiting] = [new Map<string, number>(), new Map<string, number>()];
  for (const project of scene.limits.keys()) {
    const ids = await waitingOf(scene, project);
    t.deepEqual(ids, ids.toSorted(), `${at}: by age`);
    waiting.set(project, ids.length);
    const held = leases.filter(({ projectId }) => projectId === project).length;
    running.set(project, held);
    const limit = scene.limits.get(project)?.running ?? 0;
    // A lowered limit lets what was handed over end; beyond that nothing is handed over.
    t.true(held <= Math.max(limit, before.get(project) ?? 0), `${at}: ${held} of ${limit}`);
    const couldRun = ids.length > 0 && held < limit && !scene.paused.has(project);
    t.false(couldRun && leases.length < Number(conf[2]), `${at}: room is left`);
  }
  const counted = Object.fromEntries(Object.entries(run).map(([project, count]) => [project, Number(count)]));
  t.deepEqual(counted, positive(running), `${at}: counters of what runs`);
  t.deepEqual(pairs(backlog), positive(waiting), `${at}: counters of what waits`);
  t.is(
    Number(conf[3] ?? 0),
    waiting.values().reduce((sum, count) => sum + count, 0),
    `${at}: all that waits`,
  );
  return running;
};

for (const seed of ['first', 'second', 'third']) {
  test(`whatever comes in whatever order, counters are true, no limit is passed and no room stays unused (${seed})`, async (t) => {
    const roll = diceOf(seed);
    const scene = await openGate(t, { slots: 5 });
    const all = projects(7);
    for (const project of all) scene.limits.set(project, { running: 1 + roll(4), waiting: 1000 });
    const steps = stepsOf(scene, all, roll);
    let running = new Map<string, number>();
    for (let step = 0; step < 200; step += 1) {
      const which = roll(3) === 0 ? roll(steps.length) : roll(3);
      await steps[which]?.();
      running = await check(t, scene, running, `step ${step} (${which})`);
    }
    t.true(new Set(await scene.handedOver()).size > 50);
  });
}
