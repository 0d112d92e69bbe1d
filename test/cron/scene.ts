import test, { type ExecutionContext } from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import type { CronTickDeps } from '#domain/cron/tick.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { JobRef } from '#queues/define.ts';
import { type TestDatabase, createTestDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';
import { insertProject } from '#test/support/engine.ts';

/** A control database with a project, and a gate that takes down what it is given. */
export interface CronScene {
  readonly db: ControlDb;
  readonly database: TestDatabase;
  readonly log: Log;
  readonly logged: () => string;
  readonly projectId: string;
  readonly admitted: readonly (JobRef & { readonly capped: boolean })[];
  readonly deps: CronTickDeps;
  readonly close: () => Promise<void>;
}

const openScene = async (): Promise<CronScene> => {
  const database = await createTestDatabase();
  const { log, text } = memoryLog();
  const db = openControlDb({ url: database.url, connections: 6, log });
  const admitted: (JobRef & { readonly capped: boolean })[] = [];
  const gate: CronTickDeps['gate'] = {
    admit: (job, capped) => {
      admitted.push({ ...job, capped });
      return Promise.resolve('waiting');
    },
  };
  return {
    db,
    database,
    log,
    logged: text,
    projectId: await insertProject(db, 'pro'),
    admitted,
    deps: { db, gate, log },
    close: async () => {
      await db.close();
      await database.drop();
    },
  };
};

/** A test with a scene of its own. */
export const inScene = (title: string, work: (t: ExecutionContext, scene: CronScene) => Promise<void>): void =>
  test(title, async (t) => {
    const scene = await openScene();
    try {
      await work(t, scene);
    } finally {
      await scene.close();
    }
  });

export interface Given {
  readonly projectId?: string;
  readonly schedule?: string;
  readonly timezone?: string;
  readonly target?: object;
  readonly payload?: string;
  readonly overlap?: string;
  readonly misfire?: string;
  /** How long ago it was due, in seconds; negative: it is not due yet. */
  readonly dueFor?: number;
}

/** A schedule that is due since then. By default it fires far apart, so that only what is due fires. */
export const insertSchedule = async ({ db, projectId }: CronScene, given: Given = {}): Promise<string> => {
  const id = newId();
  await db.transaction(async (tx) => {
    await tx.query(
      `insert into schedules
         (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, due_at)
       select $1, $2, 'a schedule', $3, $4, $5, $6, true, $7, $8, at, at
       from (select date_trunc('second', now()) - make_interval(secs => $9) as at)`,
      [
        id,
        given.projectId ?? projectId,
        given.schedule ?? '0 0 1 1 *',
        given.timezone ?? 'UTC',
        JSON.stringify(given.target ?? { type: 'sql', sql: 'select 1' }),
        given.payload ?? 'null',
        given.overlap ?? 'skip',
        given.misfire ?? 'once',
        given.dueFor ?? 1,
      ],
    );
  }, systemActor);
  return id;
};

export const insertFunction = async ({ db, projectId }: CronScene): Promise<string> => {
  const id = newId();
  await db.transaction(async (tx) => {
    await tx.query(
      `insert into functions
         (id, project_id, slug, name, language, entry_point, code, compiled, timeout_ms, memory_mb, version)
       values ($1, $2, $3, 'f', 'javascript', 'handler', '', '', 1000, 64, 7)`,
      [id, projectId, `f-${id}`],
    );
  }, systemActor);
  return id;
};

/** Makes a schedule due once more, as if its time had come. */
export const dueAgain = async ({ db }: CronScene, id: string, seconds = 0): Promise<void> => {
  await db.query(
    `update schedules set next_run_at = at, due_at = at
     from (select date_trunc('second', now()) - make_interval(secs => $2) as at) x where id = $1`,
    [id, seconds],
  );
};

export interface RunSeen {
  readonly id: string;
  readonly status: string;
  readonly reason: string | null;
  readonly job_id: string | null;
  readonly fire_at: Date;
}

/** The oldest first. */
export const runsOf = ({ db }: CronScene, id: string): Promise<RunSeen[]> =>
  db.query<RunSeen>(
    'select id, status, reason, job_id, fire_at from schedule_runs where schedule_id = $1 order by fire_at, id',
    [id],
  );

export interface JobSeen {
  readonly id: string;
  readonly type: string;
  readonly data: string;
  readonly status: string;
  readonly request_id: string;
}

/** The jobs of a schedule's runs, in the order of the fires. */
export const jobsOf = ({ db }: CronScene, id: string): Promise<JobSeen[]> =>
  db.query<JobSeen>(
    `select j.id, j.type, j.data, j.status, j.request_id
     from schedule_runs r join jobs j on j.id = r.job_id where r.schedule_id = $1 order by r.fire_at`,
    [id],
  );

export const endJobs = async ({ db }: CronScene, scheduleId: string, status = 'succeeded'): Promise<void> => {
  await db.query(
    `update jobs j set status = $2, started_at = now(), finished_at = now() from schedule_runs r
     where r.schedule_id = $1 and j.id = r.job_id and j.status in ('queued', 'running')`,
    [scheduleId, status],
  );
};

export const setProject = async (
  { db }: CronScene,
  projectId: string,
  status: string,
  plan?: string,
): Promise<void> => {
  await db.transaction(async (tx) => {
    await tx.query('update projects set status = $2, plan = coalesce($3, plan) where id = $1', [
      projectId,
      status,
      plan ?? null,
    ]);
  }, systemActor);
};

export interface Times {
  readonly next_run_at: Date | null;
  readonly due_at: Date | null;
}

export const timesOf = async ({ db }: CronScene, id: string): Promise<Times> => {
  const [row] = await db.query<Times>('select next_run_at, due_at from schedules where id = $1', [id]);
  if (row === undefined) throw new Error('there is no such schedule');
  return row;
};
