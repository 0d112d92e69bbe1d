import { setTimeout as pause } from 'node:timers/promises';
import type { Scene } from '../scene.ts';
import { type FunctionSite, notSucceeded, openFunctionSite, untilEnded } from './function-site.ts';
import type { Scenario } from './scenario.ts';

const many = <T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)));

const maxWaitMs = 120_000;

const racers = 50;

const sameUniqueKey: Scenario = {
  name: 'the same unique key 50 times',
  did: `${racers} calls of two API processes enqueue a job with one unique key at once, while the worker is killed: one job is made and runs, and all are told its id`,
  isWitnessed: false,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const other = await site.startApi();
    const fn = await site.deploy('once', 'exports.handler = () => 1;');
    scene.faultBegins();
    const killed = site.kill.worker();
    const answers = await many(racers, async (n) => {
      const body = { payload: n, unique_key: 'the-same-one' };
      return (await site.enqueue(fn, body, n % 2 === 0 ? undefined : other))[0];
    });
    await killed;
    scene.faultIsOver();
    const ids = [...new Set(answers.map((answer) => answer?.job_id ?? ''))];
    const made = answers.filter((answer) => answer?.status === 'queued').length;
    const ended = await untilEnded(scene, ids, maxWaitMs);
    const rows = await scene.db.query(`select from jobs where type = 'function.invoke'`);
    return [
      ...(ids.length === 1 ? [] : [`there are ${ids.length} ids`]),
      ...(made === 1 ? [] : [`${made} calls were told that theirs is the first`]),
      ...(rows.length === 1 ? [] : [`${rows.length} jobs were made`]),
      ...notSucceeded(ended),
    ];
  },
};

const maxDepth = 100;
const untilStillMs = 120_000;
/** Events whose mark was lost with Redis are found by a poll, every 5 s. */
const stillMs = 15_000;

/** How many jobs the functions have had, once no more come for a while. */
const untilStill = async (scene: Scene): Promise<number> => {
  const until = performance.now() + untilStillMs;
  let [before, since] = [-1, performance.now()];
  while (performance.now() < until) {
    const [row] = await scene.db.query<{ all: number; open: number }>(
      `select count(*)::int as all, count(*) filter (where finished_at is null)::int as open from jobs
       where type = 'function.invoke'`,
    );
    const { all, open } = row ?? { all: -1, open: 0 };
    if (open > 0 || all !== before) since = performance.now();
    else if (performance.now() - since >= stillMs) return all;
    before = all;
    await pause(1000);
  }
  return -1;
};

const loops: Scenario = {
  name: 'loops',
  did: `a function that enqueues itself, and one whose trigger answers to its own writes, while Redis is killed: each chain ends after ${maxDepth} jobs`,
  isWitnessed: false,
  restWithinMs: 60_000,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const itself = await site.deploy('itself', `exports.handler = (n, { jobs }) => jobs.enqueue('itself', n + 1);`);
    const writer = await site.deploy('writer', `exports.handler = (_, { db }) => db.insert('ticks', { n: 1 });`);
    await site.ask('/db/query', { sql: 'create table ticks (n int)' });
    await site.ask(`/functions/${writer}/triggers`, { event: 'table.ticks.INSERT' });
    scene.faultBegins();
    await site.enqueue(itself, { payload: 0 });
    await site.ask('/db/query', { sql: 'insert into ticks values (0)' });
    await pause(1000);
    await site.kill.redis();
    scene.faultIsOver();
    const all = await untilStill(scene);
    scene.stage.print(`  ${all} jobs`);
    // A job of its own begins the first chain, an event the second one.
    const [least, most] = [2 * maxDepth - 2, 2 * maxDepth + 2];
    return all >= least && all <= most ? [] : [`there were ${all} jobs, not ${least} to ${most}`];
  },
};

const floodWithinMs = 60_000;
const floodSize = 200;

/** Keeps jobs of the highest priority waiting until it is stopped. */
const startFlood = ({ db }: Scene, site: FunctionSite, fn: string) => {
  let isOver = false;
  const flood = async (): Promise<void> => {
    const payloads = Array.from({ length: floodSize }, () => null);
    while (!isOver) {
      const waiting = await db.query(`select from jobs where status = 'queued' and priority = 9`);
      if (waiting.length < floodSize) await site.enqueue(fn, { payloads, priority: 9 });
      await pause(100);
    }
  };
  const running = flood();
  return async (): Promise<void> => {
    isOver = true;
    await running;
  };
};

const starvation: Scenario = {
  name: 'flood of priority 9',
  did: `jobs of priority 9 of a project never leave off, and its worker is killed: a job of priority 0 starts within ${floodWithinMs / 1000} s`,
  isWitnessed: false,
  restWithinMs: 60_000,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const fn = await site.deploy('flood', 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 50));');
    const low = await site.deploy('low', 'exports.handler = () => 1;');
    const stop = startFlood(scene, site, fn);
    await pause(1000);
    const [job] = await site.enqueue(low, { payload: null, priority: 0 });
    scene.faultBegins();
    await site.kill.worker();
    scene.faultIsOver();
    const id = job?.job_id ?? '';
    const ended = await untilEnded(scene, [id], maxWaitMs);
    await stop();
    const [row] = await scene.db.query<{ waited: number }>(
      'select extract(epoch from started_at - created_at)::float8 * 1000 as waited from jobs where id = $1',
      [id],
    );
    const waited = row?.waited ?? Number.POSITIVE_INFINITY;
    scene.stage.print(`  it started after ${(waited / 1000).toFixed(1)} s`);
    return [...notSucceeded(ended), ...(waited <= floodWithinMs ? [] : [`it started after ${Math.round(waited)} ms`])];
  },
};

const asleep = 100_000;
const due = 200;
/** They are due within so many seconds from the third on. */
const dueWithinSeconds = 6;

/** Runs that sleep, as they leave themselves, of which the first are due soon and all others in a day. */
const putToSleep = async (scene: Scene, projectId: string, functionId: string): Promise<void> => {
  await scene.db.query(
    `with made as (
       insert into jobs (id, project_id, type, status, data, max_attempts, request_id, attempt, has_steps, step_wait,
         next_run_at)
       select uuid_v7(), $1, 'function.invoke', 'waiting',
         format('{"function_id":"%s","version":1,"trigger":"job","payload":"null"}', $2::text), 3,
         case when n < $4 then 'due' else 'asleep' end, 1, true, 'sleep',
         now() + case when n < $4 then make_interval(secs => 3 + n * $5::float8 / $4) else interval '1 day' end
       from generate_series(0, $3 - 1) as n
       returning id, project_id, next_run_at)
     insert into job_steps (job_id, name, kind, status, started_at, due_at, project_id)
     select id, 'sleep', 'sleep', 'waiting', now(), next_run_at, project_id from made`,
    [projectId, functionId, asleep, due, dueWithinSeconds],
  );
};

const sleepers: Scenario = {
  name: '100,000 runs asleep',
  did: `${asleep} runs sleep, of which ${due} are due within ${dueWithinSeconds} s, while the worker is killed and Redis loses its memory: those that are due run, each once and none before its time, and all others sleep on`,
  isWitnessed: false,
  restWithinMs: 60_000,
  run: async (scene) => {
    const site = await openFunctionSite(scene);
    const code = 'exports.handler = async (_, { step }) => { await step.sleep(86400000); return 1; };';
    const fn = await site.deploy('sleeps', code);
    await putToSleep(scene, site.projectId, fn);
    const ids = (await scene.db.query<{ id: string }>(`select id from jobs where request_id = 'due'`)).map(
      ({ id }) => id,
    );
    scene.faultBegins();
    await pause(3000);
    await site.kill.worker();
    await scene.redis.flushall();
    scene.faultIsOver();
    const ended = await untilEnded(scene, ids, maxWaitMs);
    const [row] = await scene.db.query<{ asleep: number; early: number }>(
      `select count(*) filter (where j.request_id = 'asleep' and j.status = 'waiting')::int as asleep,
         count(*) filter (where j.request_id = 'due' and j.started_at < s.due_at)::int as early
       from jobs j join job_steps s on s.job_id = j.id where j.request_id in ('asleep', 'due')`,
    );
    // They would sleep on when the scenario is over.
    await scene.db.query(`delete from jobs where request_id = 'asleep'`);
    return [
      ...notSucceeded(ended),
      ...(row?.asleep === asleep - due ? [] : [`${row?.asleep} sleep on, not ${asleep - due}`]),
      ...(row?.early === 0 ? [] : [`${row?.early} ran before their time`]),
    ];
  },
};

export const functionJobScenarios: readonly Scenario[] = [sameUniqueKey, loops, starvation, sleepers];
