import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { createProject, deploy, signUp } from '../client.ts';
import { type Bench, type Benchmark, type Row, allRight, count, median, ms, percentile, spread } from '../harness.ts';
import type { LoadPlan } from '../load.ts';
import { requiredIn } from '../settings.ts';

const stepsOfRun = 51;
const sleepers = 10_000;
// No more than a worker has processes for: one project cannot use those of another.
const projects = 4;
const overSeconds = 60;
const leadSeconds = 5;
const maxWaitSeconds = 180;

const stepped = `exports.handler = async (payload, { step }) => {
  for (let n = 0; n < payload; n += 1) await step.run('s', () => n);
};`;
const sleeping = `exports.handler = (payload, { step }) => step.sleep(1);`;

/** The caller's waits for a run with so many steps, and what of them the sandbox does not account for. */
const measure = async (bench: Bench): Promise<readonly Row[]> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  const project = await createProject(url, user);
  const fn = await deploy(url, user, project, stepped);
  const waits = async (payload: number) => {
    const requests: LoadPlan['requests'] = [
      { method: 'POST', path: `/projects/${project}/functions/${fn}/invoke`, body: JSON.stringify({ payload }) },
    ];
    const plan = {
      url,
      headers: user.headers,
      requests,
      status: 200,
      mustHold: '"status":"success"',
      field: 'duration_ms',
    };
    return allRight(await bench.servers.load({ ...plan, callers: 1, warmUp: { seconds: 2 }, extent: { seconds: 6 } }));
  };
  const [none, one, many] = [await waits(0), await waits(1), await waits(stepsOfRun)];
  const engine = median(none.latencies.map((latency, at) => latency - (none.values[at] ?? Number.NaN)));
  const first = median(one.latencies) - median(none.latencies);
  const each = (median(many.latencies) - median(one.latencies)) / (stepsOfRun - 1);
  return [
    {
      name: 'a step of a run, beside the others',
      ours: ms(each),
      floor: ms(engine),
      ratio: each / engine,
      target: { of: 'ratio', atMost: 2 },
      notes: [
        'floor: the time of a sync no-op outside of the sandbox',
        `runs with 0, 1 and ${stepsOfRun} steps, one caller: ${spread(none.latencies)}; ${spread(one.latencies)}; ${spread(many.latencies)} ms`,
        `the first step of a run, which loads what is recorded, takes ${first.toFixed(2)} ms`,
      ],
    },
  ];
};

/** Runs that sleep, as `goToSleep` leaves them, due one after the other from `leadSeconds` on. */
const putToSleep = async (db: ControlDb, functions: readonly (readonly [project: string, fn: string])[]) => {
  await db.query(
    `with made as (
       insert into jobs (id, project_id, type, status, data, max_attempts, request_id, attempt, has_steps, step_wait,
         next_run_at)
       select uuid_v7(), p.id, 'function.invoke', 'waiting',
         format('{"function_id":"%s","version":1,"trigger":"job","payload":"null"}', p.fn), 3, 'bench asleep', 1, true,
         'sleep', now() + make_interval(secs => $4 + n * $5::float8 / $3)
       from generate_series(0, $3 - 1) as n
         join unnest($1::uuid[], $2::uuid[]) with ordinality as p (id, fn, nth) on p.nth - 1 = n % cardinality($1::uuid[])
       returning id, project_id, next_run_at)
     insert into job_steps (job_id, name, kind, status, started_at, due_at, project_id)
     select id, 'sleep', 'sleep', 'waiting', now(), next_run_at, project_id from made`,
    [functions.map(([id]) => id), functions.map(([, fn]) => fn), sleepers, leadSeconds, overSeconds],
  );
  await db.query('analyze jobs');
};

const lateness = async (db: ControlDb): Promise<number[]> => {
  const rows = await db.query<{ late: number }>(
    `select extract(epoch from j.started_at - s.due_at)::float8 * 1000 as late
     from jobs j join job_steps s on s.job_id = j.id
     where j.request_id = 'bench asleep' and j.status = 'succeeded' order by s.due_at`,
  );
  return rows.map(({ late }) => late);
};

/** The latest run of each second in which runs were due. */
const worstBySecond = (late: readonly number[]): string => {
  const perSecond = sleepers / overSeconds;
  const seconds = Array.from({ length: overSeconds }, (_, nth) => late.slice(nth * perSecond, (nth + 1) * perSecond));
  return seconds.map((ones) => Math.round(ones.reduce((most, one) => Math.max(most, one), 0))).join(', ');
};

const wake = async (bench: Bench, db: ControlDb): Promise<readonly Row[]> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  const functions: (readonly [string, string])[] = [];
  for (let n = 0; n < projects; n += 1) {
    const project = await createProject(url, user);
    functions.push([project, await deploy(url, user, project, sleeping)]);
  }
  await putToSleep(db, functions);
  await pause((leadSeconds + overSeconds) * 1000, undefined, { signal: bench.signal });
  let late = await lateness(db);
  for (let waited = 0; late.length < sleepers && waited < maxWaitSeconds; waited += 1) {
    await pause(1000, undefined, { signal: bench.signal });
    late = await lateness(db);
  }
  return [
    {
      name: 'from when a sleep is over until its run starts, p99',
      ours: ms(percentile(late, 0.99)),
      target: { of: 'ours', atMost: 1000 },
      notes: [
        `${sleepers} runs of ${projects} projects, due in ${overSeconds} s; ${spread(late)} ms`,
        `the latest of each second: ${worstBySecond(late)} ms`,
      ],
    },
    {
      name: 'runs that did not wake',
      ours: count(sleepers - late.length),
      target: { of: 'ours', atMost: 0 },
      notes: [],
    },
  ];
};

/** The cost of a step beside a run, and how late runs that sleep begin. */
export const functionSteps: Benchmark = {
  name: 'functions/steps',
  run: async (bench) => {
    const db = openControlDb({
      url: requiredIn(bench.env, 'DATABASE_URL'),
      connections: 2,
      log: pino({ level: 'silent' }),
    });
    try {
      return [...(await measure(bench)), ...(await wake(bench, db))];
    } finally {
      await db.close();
    }
  },
};
