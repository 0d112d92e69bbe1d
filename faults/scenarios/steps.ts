import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { signUp } from '#bench/client.ts';
import { createDataProject } from '#bench/data/scene.ts';
import type { Child } from '../children.ts';
import type { Scene } from '../scene.ts';
import type { Scenario } from './scenario.ts';

const runs = 6;
const steps = 4;
/** Two of them are of workers: a third, without a step in between, would be the last of a run (`poison`). */
const maxKills = 6;
const awayMs = 300;
const maxWaitMs = 180_000;

/** Each step calls the counter, which stands outside of all that is killed; between the second and third it sleeps. */
const working = `exports.handler = async ({ run, url }, { step }) => {
  for (let n = 1; n <= ${steps}; n += 1) {
    await step.run('step ' + n, async () => (await fetch(url + '/' + run + '/' + n, { method: 'POST' })).status);
    if (n === 2) await step.sleep(500);
  }
  return run;
}`;

type Fault = 'worker' | 'redis' | 'postgres';
const faults: readonly Fault[] = ['worker', 'redis', 'postgres'];

const killed = async (child: Child): Promise<void> => {
  child.signal('SIGKILL');
  await child.end;
};

/** An API and a worker, of which the worker is killed and started again, and what else is killed. */
const openSite = async (scene: Scene) => {
  const own = {
    PLINTH_LOCAL: 'on',
    PLINTH_RATE_LIMITS: 'off',
    SANDBOX: 'best-effort',
    PLINTH_EGRESS_ALLOW: '127.0.0.0/8',
  };
  let started = 0;
  const start = async (file: string): Promise<Child> => {
    started += 1;
    const child = scene.start(`process-${started}`, file, { ...own, PORT: '0' });
    await child.ready;
    return child;
  };
  let worker = await start('workers/server.ts');
  const api = await start('api/server.ts');
  const url = `http://127.0.0.1:${api.port()}`;
  const user = await signUp(url);
  const project = await createDataProject(url, user);
  const ask = async (path: string, body: object): Promise<unknown> => {
    const answer = await fetch(`${url}/projects/${project.id}${path}`, {
      method: 'POST',
      headers: { ...user.headers },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  const fields = { name: 'steps', language: 'javascript', code: working, timeout_ms: 60_000 };
  const { id } = (await ask('/functions', fields)) as { id: string };
  const server = async (name: 'redis' | 'postgres'): Promise<void> => {
    await scene.stage.servers[name].end('SIGKILL');
    await pause(awayMs);
    await scene.stage.servers[name].start();
  };
  return {
    enqueue: async (payloads: readonly object[]) => {
      const { jobs } = (await ask(`/functions/${id}/jobs`, { payloads })) as { jobs: { job_id: string }[] };
      return jobs.map(({ job_id: jobId }) => jobId);
    },
    kill: {
      worker: async () => {
        await killed(worker);
        worker = await start('workers/server.ts');
      },
      redis: () => server('redis'),
      postgres: () => server('postgres'),
    } satisfies Record<Fault, () => Promise<void>>,
  };
};

/** Counts the effects of steps, and reports each one before it answers. */
const openCounter = async (onEffect: () => void) => {
  const effects = new Map<string, number>();
  const server: Server = createServer((request, response) => {
    const key = request.url ?? '';
    effects.set(key, (effects.get(key) ?? 0) + 1);
    onEffect();
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, effects, close: () => server.close() };
};

/** Kills in turn, a moment after the effect of one step and before that of the next, whatever step that is. */
const startKilling = (kill: Record<Fault, () => Promise<void>>) => {
  let kills = 0;
  let [hasStarted, isBusy] = [false, false];
  const begin = (): void => {
    hasStarted = true;
  };
  const problems: string[] = [];
  let last: Promise<void> = Promise.resolve();
  const onEffect = (): void => {
    if (!hasStarted || isBusy || kills >= maxKills) return;
    isBusy = true;
    const fault = faults[kills % faults.length] ?? 'worker';
    kills += 1;
    last = pause(Math.random() * 20)
      .then(kill[fault])
      .catch((error: unknown) => void problems.push(`${fault} did not come back: ${String(error)}`))
      .finally(() => {
        isBusy = false;
      });
  };
  return { begin, onEffect, kills: () => kills, settled: () => last, problems };
};

interface Ended {
  readonly id: string;
  readonly status: string;
  readonly error_code: string | null;
}

const untilEnded = async (scene: Scene, ids: readonly string[]): Promise<readonly Ended[]> => {
  const until = performance.now() + maxWaitMs;
  for (;;) {
    const rows = await scene.db
      .query<Ended>('select id, status, error_code from jobs where id = any($1::uuid[])', [ids])
      .catch(() => []);
    const isOver =
      rows.length === ids.length && rows.every(({ status }) => ['succeeded', 'failed', 'dead'].includes(status));
    if (isOver || performance.now() > until) return rows;
    await pause(500);
  }
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
  const expected = new Map(
    [...Array.from({ length: steps }, (_, n) => `step ${n + 1}`), 'sleep'].map((name) => [name, runs]),
  );
  const wrong = [...expected].filter(([name, count]) => recorded.find((row) => row.name === name)?.count !== count);
  const keys = Array.from({ length: runs * steps }, (_, n) => `/${Math.floor(n / steps)}/${(n % steps) + 1}`);
  return [
    ...wrong.map(([name]) => `${name} is not recorded ${runs} times`),
    ...keys.filter((key) => !effects.has(key)).map((key) => `the effect of ${key} is missing`),
  ];
};

export const stepScenarios: readonly Scenario[] = [
  {
    name: 'steps',
    did: `kill -9 of worker, Redis and Postgres in turn between the steps of ${runs} runs: each step is done at least once, recorded once and never skipped`,
    isWitnessed: false,
    restWithinMs: 120_000,
    run: async (scene) => {
      const site = await openSite(scene);
      const killing = startKilling(site.kill);
      const counter = await openCounter(killing.onEffect);
      // A function is known to have steps by a run that had some.
      const [first = ''] = await site.enqueue([{ run: 'first', url: counter.url }]);
      await untilEnded(scene, [first]);
      killing.begin();
      scene.faultBegins();
      const ids = await site.enqueue(Array.from({ length: runs }, (_, run) => ({ run, url: counter.url })));
      const ended = await untilEnded(scene, ids);
      await killing.settled();
      scene.faultIsOver();
      counter.close();
      const done = [...counter.effects.values()].reduce((sum, count) => sum + count, 0) - steps;
      scene.stage.print(`  ${killing.kills()} kills; ${runs * steps} steps had ${done} effects`);
      const failed = ended.filter(({ status }) => status !== 'succeeded');
      return [
        ...killing.problems,
        ...failed.map(({ id, status, error_code: code }) => `${id} is ${status} (${code})`),
        ...(await wrongSteps(scene, ids, counter.effects)),
      ];
    },
  },
];
