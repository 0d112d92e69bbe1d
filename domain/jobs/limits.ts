import type { Plan } from '#domain/projects/store.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import type { JobDefinition } from '#queues/define.ts';
import type { GateRules, Limits } from '#queues/gate/types.ts';

/** How many jobs of a type run at a time on the whole installation; null: as many as there are slots. */
export interface GlobalLimit {
  readonly type: string;
  /** Returns the limits in force: the operators' limit, else the setting. */
  readonly limit: number | null;
  readonly own_limit: number | null;
}

const columns = 'type, coalesce(own, setting) as "limit", own as own_limit';

export const globalLimits = (db: Queryable): Promise<GlobalLimit[]> =>
  db.query<GlobalLimit>(`select ${columns} from job_type_limits`, [], 'global-limits');

export const globalLimitOf = async (db: Queryable, type: string): Promise<GlobalLimit> =>
  (await maybeOne(
    db.query<GlobalLimit>(`select ${columns} from job_type_limits where type = $1`, [type], 'global-limit'),
  )) ?? { type, limit: null, own_limit: null };

/** Sets the operators' limit in place of the setting; null restores the setting. */
export const setGlobalLimit = async (db: Queryable, type: string, limit: number | null): Promise<void> => {
  await db.query(
    `insert into job_type_limits (type, own) values ($1, $2) on conflict (type) do update set own = excluded.own`,
    [type, limit],
  );
};

/**
 * Keeps the settings of a worker that starts: with one value in Postgres all workers count by the same, also while old
 * ones with another setting still run. The one that was started last has its way.
 * @returns the types whose setting was another one before
 */
export const noteGlobalSettings = async (
  db: Queryable,
  settings: ReadonlyMap<string, number | null>,
): Promise<string[]> => {
  const rows = await db.query<{ type: string }>(
    `with given as (select type, setting from unnest($1::text[], $2::int[]) as given (type, setting)),
     before as (select l.type, l.setting from job_type_limits l join given using (type)),
     kept as (
       insert into job_type_limits as l (type, setting) select type, setting from given order by type
       on conflict (type) do update set setting = excluded.setting where l.setting is distinct from excluded.setting)
     select type from before join given using (type) where before.setting is distinct from given.setting`,
    [[...settings.keys()], [...settings.values()]],
  );
  return rows.map(({ type }) => type);
};

interface LimitRow {
  readonly id: string;
  readonly plan: Plan | null;
  readonly running: number | null;
  readonly waiting: number | null;
}

/** Jobs of a deleted project pass the gate and are refused when they would start. */
const ofGoneProject: Plan = 'free';
/** For a type that this release does not know. */
const none: JobDefinition['running'] = { free: 0, pro: 0, enterprise: 0 };

/**
 * How many jobs of a type projects may have: by their plan, or as operators set it.
 * @param waitingJobs how many may wait (PLINTH_WAITING_JOBS)
 */
export const limitsOf = async (
  db: Queryable,
  { type, running }: Pick<JobDefinition, 'type' | 'running'>,
  { projectIds, waitingJobs }: { readonly projectIds: readonly string[]; readonly waitingJobs: number },
): Promise<Map<string, Limits>> => {
  const rows = await db.query<LimitRow>(
    `select asked.id, p.plan, l.running, l.waiting
     from unnest($1::uuid[]) as asked (id)
     left join projects p on p.id = asked.id
     left join job_limits l on l.project_id = asked.id and l.type = $2`,
    [projectIds, type],
    'job-limits',
  );
  return new Map(
    rows.map((row) => [
      row.id,
      { running: row.running ?? running[row.plan ?? ofGoneProject], waiting: row.waiting ?? waitingJobs },
    ]),
  );
};

/**
 * The gate's rules: each project's limits by its plan, or as operators set them, and what is paused.
 * @param waitingJobs how many jobs of one type may wait (PLINTH_WAITING_JOBS)
 */
export const rulesFrom = (db: ControlDb, jobs: readonly JobDefinition[], waitingJobs: number): GateRules => ({
  limitsOf: async (type, projectIds) => {
    const job = jobs.find((each) => each.type === type) ?? { type, running: none };
    return limitsOf(db, job, { projectIds, waitingJobs });
  },
  globalLimitOf: async (type) => (await globalLimitOf(db, type)).limit,
  pausesOf: async (type) => {
    const rows = await db.query<{ project: string }>(
      `select coalesce(project_id::text, '*') as project from job_pauses where type is null or type = $1`,
      [type],
    );
    return [...new Set(rows.map((row) => row.project))];
  },
});
