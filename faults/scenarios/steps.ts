import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Scene } from '../scene.ts';
import { type FunctionSite, notSucceeded, openFunctionSite, untilEnded } from './function-site.ts';
import type { Scenario } from './scenario.ts';

const runs = 6;
const steps = 4;
/** Two of them are of workers: a third, without a step in between, would be the last of a run (`poison`). */
const maxKills = 6;
const maxWaitMs = 180_000;

/**
 * Each step calls the counter, which stands outside of all that is killed, as does the code before the first one (0);
 * between the second and third step it sleeps.
 */
const working = `exports.handler = async ({ run, url }, { step }) => {
  const effect = (n) => async () => (await fetch(url + '/' + run + '/' + n, { method: 'POST' })).status;
  await effect(0)();
  for (let n = 1; n <= ${steps}; n += 1) {
    await step.run('step ' + n, effect(n));
    if (n === 2) await step.sleep(500);
  }
  return run;
}`;

type Fault = keyof FunctionSite['kill'];
const faults: readonly Fault[] = ['worker', 'redis', 'postgres'];

/** Counts effects, and reports each one before it answers. */
const openCounter = async (onEffect: (key: string) => void) => {
  const effects = new Map<string, number>();
  const server: Server = createServer((request, response) => {
    const key = request.url ?? '';
    effects.set(key, (effects.get(key) ?? 0) + 1);
    onEffect(key);
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, effects, close: () => server.close() };
};

/** Kills what is next, a moment after an effect; one at a time. */
const startKilling = (kill: FunctionSite['kill']) => {
  let kills = 0;
  let isBusy = false;
  const problems: string[] = [];
  let last: Promise<void> = Promise.resolve();
  const strike = (fault: Fault): void => {
    if (isBusy) return;
    isBusy = true;
    kills += 1;
    last = pause(Math.random() * 20)
      .then(kill[fault])
      .catch((error: unknown) => void problems.push(`${fault} did not come back: ${String(error)}`))
      .finally(() => {
        isBusy = false;
      });
  };
  return { strike, kills: () => kills, settled: () => last, problems };
};

/** Each effect at least once, each step recorded once with a result, none skipped. */
const wrongSteps = async (
  scene: Scene,
  ids: readonly string[],
  effects: ReadonlyMap<string, number>,
): Promise<string[]> => {
  const recorded = await scene.db.query<{ name: string; count: number }>(
    `select name, count(*)::int as count from job_steps where status = 'succeeded' and job_id = any($1::uuid[]) group by name`,
    [ids],
  );
  const expected = [...Array.from({ length: steps }, (_, n) => `step ${n + 1}`), 'sleep'];
  const wrong = expected.filter((name) => recorded.find((row) => row.name === name)?.count !== ids.length);
  const keys = ids.flatMap((_, run) => Array.from({ length: steps + 1 }, (_step, n) => `/${run}/${n}`));
  return [
    ...wrong.map((name) => `${name} is not recorded ${ids.length} times`),
    ...keys.filter((key) => !effects.has(key)).map((key) => `the effect of ${key} is missing`),
  ];
};

/** Without those of the code before the first step, which runs in each stretch. */
const effectsOfSteps = (effects: ReadonlyMap<string, number>): number =>
  [...effects].reduce((all, [key, count]) => all + (key.endsWith('/0') ? 0 : count), 0);

const atRandom: Scenario = {
  name: 'steps',
  did: `kill -9 of worker, Redis and Postgres in turn between the steps of ${runs} runs: each step is done at least once, recorded once and never skipped`,
  isWitnessed: false,
  restWithinMs: 120_000,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const killing = startKilling(site.kill);
    const counter = await openCounter(() => {
      if (killing.kills() < maxKills) killing.strike(faults[killing.kills() % faults.length] ?? 'worker');
    });
    const fn = await site.deploy('steps', working);
    scene.faultBegins();
    const payloads = Array.from({ length: runs }, (_, run) => ({ run, url: counter.url }));
    const ids = (await site.enqueue(fn, { payloads })).map(({ job_id: id }) => id);
    const ended = await untilEnded(scene, ids, maxWaitMs);
    await killing.settled();
    scene.faultIsOver();
    counter.close();
    scene.stage.print(
      `  ${killing.kills()} kills; ${runs * steps} steps had ${effectsOfSteps(counter.effects)} effects`,
    );
    return [...killing.problems, ...notSucceeded(ended), ...(await wrongSteps(scene, ids, counter.effects))];
  },
};

/** The boundary before the first step, and that behind each one. */
const boundaries = Array.from({ length: steps + 1 }, (_, n) => n);

const atEach: Scenario = {
  name: 'every boundary of steps',
  did: `kill -9 of worker, Redis and Postgres, each of them once at each boundary between the steps of a run, before the first one and behind the last one too: ${boundaries.length * faults.length} runs one after the other, the first of which is the first of its function`,
  isWitnessed: false,
  restWithinMs: 120_000,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const killing = startKilling(site.kill);
    let target: { readonly key: string; readonly fault: Fault } | null = null;
    const counter = await openCounter((key) => {
      if (key !== target?.key) return;
      killing.strike(target.fault);
      target = null;
    });
    const fn = await site.deploy('steps', working);
    scene.faultBegins();
    const ids: string[] = [];
    const wrong: string[] = [];
    for (const fault of faults) {
      for (const n of boundaries) {
        const run = ids.length;
        target = { key: `/${run}/${n}`, fault };
        const [job] = await site.enqueue(fn, { payload: { run, url: counter.url } });
        const id = job?.job_id ?? '';
        ids.push(id);
        wrong.push(...notSucceeded(await untilEnded(scene, [id], maxWaitMs)));
        await killing.settled();
      }
    }
    scene.faultIsOver();
    counter.close();
    scene.stage.print(
      `  ${killing.kills()} kills; ${ids.length * steps} steps had ${effectsOfSteps(counter.effects)} effects`,
    );
    return [
      ...killing.problems,
      ...wrong,
      ...(killing.kills() < ids.length ? [`only ${killing.kills()} boundaries were struck`] : []),
      ...(await wrongSteps(scene, ids, counter.effects)),
    ];
  },
};

export const stepScenarios: readonly Scenario[] = [atRandom, atEach];
