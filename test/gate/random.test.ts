import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { newId } from '#lib/ids.ts';
import { type Share, keptOf } from '#queues/gate/types.ts';
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

const keyOf = ({ prefix }: GateScene, name: string): string => `{${prefix}:${type}}:gate:${name}`;

const waitingOf = (scene: GateScene, project: string): Promise<string[]> =>
  scene.redis.zrange(keyOf(scene, `pend:${project}`), 0, '-1');

/** How many callers wait for jobs that wait. */
const callersOf = (scene: GateScene, project: string): Promise<number> =>
  scene.redis.zcount(keyOf(scene, `pend:${project}`), '-10', '-10');

const caps: Readonly<Record<string, number>> = { some: 3, most: 6 };

const shareOf = (roll: Dice, running: number): Share => {
  const id = ['some', 'most', ''][roll(3)] ?? '';
  const organization = id === '' ? {} : { organization: { id, running: caps[id] ?? 0 } };
  return { running, waiting: 1000, kept: keptOf(running), weight: 1 + roll(3), ...organization };
};

/** Actions of clients, workers and operators on a gate, the most frequent first. */
const stepsOf = (scene: GateScene, all: readonly string[], roll: Dice): readonly (() => Promise<unknown>)[] => {
  const pick = (): string => all[roll(all.length)] ?? '';
  const [other] = projects(1);
  return [
    () => Promise.all(Array.from({ length: 1 + roll(30) }, () => scene.admitOne(pick()))),
    () => scene.admit(pick(), 1 + roll(5)),
    () => Promise.all(Array.from({ length: 1 + roll(3) }, () => scene.admitAwaited(pick()))),
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
      scene.limits.set(project, shareOf(roll, roll(8)));
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

const isForCaller = (nonce: string): boolean => Number(nonce) % 2 === 1;

const numbersIn = async (scene: GateScene, name: string): Promise<ReadonlyMap<string, number>> =>
  new Map(Object.entries(await scene.redis.hgetall(keyOf(scene, name))).map(([key, value]) => [key, Number(value)]));

/** Holds the places that are kept, and the caps of organizations. Answers for whom there is room. */
const checkShares = async (
  t: ExecutionContext,
  scene: GateScene,
  before: ReadonlyMap<string, number>,
  at: string,
): Promise<(project: string) => Promise<boolean>> => {
  const leases = await scene.leases();
  const [behind, organizations] = [await numbersIn(scene, 'back'), await numbersIn(scene, 'orgs')];
  const together = new Map<string, number>();
  for (const [project, { running, kept = 0, organization }] of scene.limits) {
    const held = leases.filter(({ projectId }) => projectId === project);
    const back = held.filter(({ lease }) => !isForCaller(lease.nonce)).length;
    if (kept > 0) t.true((behind.get(project) ?? 0) >= back, `${at}: ${back} leases of work that nobody waits for`);
    t.true(back <= Math.max(running - kept, before.get(project) ?? 0), `${at}: ${back} in ${running} places`);
    if (organization) together.set(organization.id, (together.get(organization.id) ?? 0) + held.length);
  }
  t.deepEqual(Object.fromEntries(organizations), positive(together), `${at}: counters of organizations`);
  return async (project) => {
    const { running = 0, kept = 0, organization } = scene.limits.get(project) ?? {};
    if (organization && (together.get(organization.id) ?? 0) >= organization.running) return false;
    const hasRoom = kept === 0 || (behind.get(project) ?? 0) < running - kept;
    return (await callersOf(scene, project)) > 0 || (hasRoom && (await waitingOf(scene, project)).length > 0);
  };
};

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
  const hasRoom = await checkShares(t, scene, before, at);
  const [running, waiting] = [new Map<string, number>(), new Map<string, number>()];
  for (const project of scene.limits.keys()) {
    const ids = await waitingOf(scene, project);
    const callers = await callersOf(scene, project);
    t.deepEqual(ids.slice(0, callers), ids.slice(0, callers).toSorted(), `${at}: callers by age`);
    t.deepEqual(ids.slice(callers), ids.slice(callers).toSorted(), `${at}: by age`);
    waiting.set(project, ids.length);
    const held = leases.filter(({ projectId }) => projectId === project).length;
    running.set(project, held);
    const limit = scene.limits.get(project)?.running ?? 0;
    // A lowered limit lets what was handed over end; beyond that nothing is handed over.
    t.true(held <= Math.max(limit, before.get(project) ?? 0), `${at}: ${held} of ${limit}`);
    const couldRun = held < limit && !scene.paused.has(project) && (await hasRoom(project));
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
    for (const project of all) scene.limits.set(project, shareOf(roll, 1 + roll(6)));
    const steps = stepsOf(scene, all, roll);
    let running = new Map<string, number>();
    for (let step = 0; step < 200; step += 1) {
      const which = roll(3) === 0 ? roll(steps.length) : roll(4);
      await steps[which]?.();
      running = await check(t, scene, running, `step ${step} (${which})`);
    }
    t.true(new Set(await scene.handedOver()).size > 50);
  });
}
