import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { controlMigrations } from '#domain/control-schema.ts';
import { type CronTickDeps, startCronTick } from '#domain/cron/tick.ts';
import { openQueues } from '#domain/jobs/open.ts';
import { loadConfig } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { migrate } from '#lib/migrate.ts';
import { jobs } from '#queues/registry.ts';
import { createThrowawayDatabase } from '#scripts/infra/throwaway-database.ts';
import { type Bench, type Benchmark, type Row, count, digits, ms, percentile, spread } from './harness.ts';
import { requiredIn } from './settings.ts';

const schedules = 100_000;
const perSecond = 100;
const projects = 100;
const warmUpSeconds = 5;
// A hundred ticks: the 99th percentile is not the longest one.
const countedSeconds = 100;

/** A database that nobody else ticks in: the workers of the stack would take half of the work. */
const fill = async (db: ControlDb): Promise<void> => {
  await db.query('alter table schedules disable trigger audit');
  await db.query('alter table projects disable trigger audit');
  await db.query('alter table functions disable trigger audit');
  await db.transaction(
    async (tx) => {
      await tx.query(`insert into organizations (id, name) values ('benchmarkcron000', 'bench')`);
    },
    { 'plinth.actor': '{"type":"system"}' },
  );
  await db.query(
    `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
     select uuid_v7(), 'benchmarkproject' || lpad(i::text, 4, '0'), 'benchmarkcron000', s.id, 'p', 'p' || i, 'pro',
       'active', 'p' || i, ''
     from generate_series(1, $1) i, database_servers s`,
    [projects],
  );
  await db.query(
    `insert into functions
       (id, project_id, slug, name, language, entry_point, code, compiled, timeout_ms, memory_mb, version)
     select uuid_v7(), id, 'f', 'f', 'javascript', 'handler', '', '', 1000, 64, 1 from projects`,
  );
};

/** Each fires daily, half of them functions, in three zones; so many each second from `from` on. */
const addSchedules = async (db: ControlDb): Promise<void> => {
  await db.query(
    `with p as (select p.id, f.id as function_id, row_number() over () - 1 as n
       from projects p join functions f on f.project_id = p.id)
     insert into schedules (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire,
       next_run_at, due_at)
     select uuid_v7(), p.id, 's' || i, to_char(at at time zone zone, 'SS MI HH24') || ' * * *', zone,
       case when i % 2 = 0 then jsonb_build_object('type', 'function', 'function_id', p.function_id)
         else '{"type":"sql","sql":"select 1"}' end,
       '{"hello":"world"}', true, (array['skip','queue','allow'])[1 + i % 3], 'once', at, at
     from generate_series(0, $1 - 1) i join p on p.n = i % $2,
       lateral (select date_trunc('second', now()) + make_interval(secs => 5 + i / $3) as at) a,
       lateral (select (array['UTC','Europe/Berlin','America/New_York'])[1 + i % 3] as zone) z`,
    [schedules, projects, perSecond],
  );
  await db.query('analyze schedules');
};

interface Measured {
  readonly ticks: readonly number[];
  /** From the instant of a fire until the gate has its job, in ms. */
  readonly late: readonly number[];
  /** Schedules that should have fired and did not, and fires beyond the first of each. */
  readonly wrong: number;
}

const fireTimes = async (db: ControlDb, since: Date): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.query<{ job_id: string; fire_at: Date }>(
    'select job_id, fire_at from schedule_runs where job_id is not null and fire_at > $1',
    [since],
  );
  return new Map(rows.map((row) => [row.job_id, row.fire_at.getTime()]));
};

/** No schedule comes twice within the time of the benchmark. */
const wrongFires = async (db: ControlDb, stopped: Date): Promise<number> => {
  const [row] = await db.query<{ wrong: number }>(
    `select (select count(*) from schedules where next_run_at < $1)
       + (select count(*) - count(distinct schedule_id) from schedule_runs) as wrong`,
    [stopped],
  );
  return row?.wrong ?? Number.NaN;
};

const measure = async (db: ControlDb, deps: CronTickDeps, signal: AbortSignal): Promise<Measured> => {
  const admittedAt = new Map<string, number>();
  const ticks: { at: number; ms: number }[] = [];
  const ticking = startCronTick({
    ...deps,
    gate: {
      admit: async (job, capped) => {
        const admission = await deps.gate.admit(job, capped);
        admittedAt.set(job.id, Date.now());
        return admission;
      },
    },
    onTick: ({ ms: took }) => ticks.push({ at: Date.now(), ms: took }),
  });
  await delay((5 + warmUpSeconds) * 1000, undefined, { signal });
  const since = new Date();
  await delay(countedSeconds * 1000, undefined, { signal });
  const stopping = new Date(Date.now() - 1000);
  await ticking.stop();
  const fires = await fireTimes(db, since);
  return {
    ticks: ticks.filter(({ at }) => at > since.getTime()).map((tick) => tick.ms),
    late: [...fires].map(([id, fireAt]) => (admittedAt.get(id) ?? Infinity) - fireAt),
    wrong: await wrongFires(db, stopping),
  };
};

const rowsOf = ({ ticks, late, wrong }: Measured): readonly Row[] => {
  const worst = percentile(late, 1);
  return [
    {
      name: `cron: a tick with ${perSecond} due among ${digits(schedules)} schedules, p99`,
      ours: ms(percentile(ticks, 0.99)),
      target: { of: 'ours', atMost: 200 },
      notes: [
        `${ticks.length} ticks: ${spread(ticks)} ms, the longest ${digits(percentile(ticks, 1))} ms`,
        'from the look at the index to the last job in the gate; half of the targets functions, three time zones',
      ],
    },
    {
      name: 'cron: from the instant of a fire to its job in the gate, the latest',
      ours: ms(worst),
      target: { of: 'ours', atMost: 1000 },
      notes: [`${late.length} fires: ${spread(late)} ms`],
    },
    {
      name: 'cron: fires that were lost or made twice',
      ours: count(wrong),
      target: { of: 'ours', atMost: 0 },
      notes: [`${countedSeconds + warmUpSeconds} s with ${perSecond} fires each`],
    },
  ];
};

const onThrowawayControl = async <T>(bench: Bench, work: (url: string) => Promise<T>): Promise<T> => {
  const database = await createThrowawayDatabase(requiredIn(bench.env, 'DATABASE_URL'));
  try {
    await migrate(database.url, controlMigrations);
    return await work(database.url);
  } finally {
    await database.drop();
  }
};

export const cronTick: Benchmark = {
  name: 'cron/tick',
  run: (bench) =>
    onThrowawayControl(bench, async (url) => {
      const log = pino({ level: 'silent' });
      const prefix = `bench-cron-${process.pid}`;
      const config = loadConfig({ ...bench.env, DATABASE_URL: url, PLINTH_REDIS_PREFIX: prefix });
      const db = openControlDb({ url, connections: config.PLINTH_DATABASE_POOL, log });
      const queues = openQueues({ config, log, db, jobs });
      try {
        await fill(db);
        await addSchedules(db);
        return rowsOf(await measure(db, { db, gate: queues.gate, log }, bench.signal));
      } finally {
        const keys = await queues.redis.keys(`*${prefix}*`);
        if (keys.length > 0) await queues.redis.unlink(...keys);
        await queues.close();
        await db.close();
      }
    }),
};
