import type { Plan } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import type { JobDefinition } from '#queues/define.ts';
import { type GateRules, type Share, keptOf } from '#queues/gate/types.ts';

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
  readonly org_id: string | null;
  /** As operators set it for its organization. */
  readonly most: number | null;
}

/** How projects share what there is. */
export interface Sharing {
  /** The places that a project gets in a turn, by plan. */
  readonly weights: Readonly<Record<Plan, number>>;
  /** How many jobs of a type the projects of an organization may have running together; null: any number. */
  readonly organizationRunning: number | null;
}

export const sharingFrom = (
  config: Pick<Config, `PLINTH_WEIGHT_${'FREE' | 'PRO' | 'ENTERPRISE'}` | 'PLINTH_ORGANIZATION_RUNNING'>,
): Sharing => ({
  weights: {
    free: config.PLINTH_WEIGHT_FREE,
    pro: config.PLINTH_WEIGHT_PRO,
    enterprise: config.PLINTH_WEIGHT_ENTERPRISE,
  },
  organizationRunning: config.PLINTH_ORGANIZATION_RUNNING ?? null,
});

const alike: Sharing = { weights: { free: 1, pro: 1, enterprise: 1 }, organizationRunning: null };

/** Sets what an organization may have running in place of the setting; null gives the setting back. */
export const setOrganizationLimit = async (
  db: Queryable,
  orgId: string,
  type: string,
  running: number | null,
): Promise<void> => {
  if (running === null) {
    await db.query('delete from organization_limits where org_id = $1 and type = $2', [orgId, type]);
    return;
  }
  await db.query(
    `insert into organization_limits (org_id, type, running) values ($1, $2, $3)
     on conflict (org_id, type) do update set running = excluded.running`,
    [orgId, type, running],
  );
};

const maxNotified = 1000;

/** The projects of an organization that have jobs of a type at the gate or at workers. */
export const busyProjectsOf = async (db: Queryable, orgId: string, type: string): Promise<string[]> => {
  const rows = await db.query<{ id: string }>(
    `select p.id from projects p where p.org_id = $1 and exists (select from jobs j
       where j.project_id = p.id and j.type = $2 and j.status in ('queued', 'running')) limit ${maxNotified}`,
    [orgId, type],
  );
  return rows.map(({ id }) => id);
};

/** Jobs of a deleted project pass the gate and are refused when they would start. */
const ofGoneProject: Plan = 'free';
/** For a type that this release does not know. */
const none: JobDefinition['running'] = { free: 0, pro: 0, enterprise: 0 };

interface LimitsRequest {
  readonly projectIds: readonly string[];
  /** How many may wait (PLINTH_WAITING_JOBS). */
  readonly waitingJobs: number;
  /** Left out: all are alike. */
  readonly sharing?: Sharing;
}

const shareOf = (
  row: LimitRow,
  { running: byPlan, keepsPlaces = false }: Pick<JobDefinition, 'running' | 'keepsPlaces'>,
  { waitingJobs, sharing = alike }: LimitsRequest,
): Share => {
  const plan = row.plan ?? ofGoneProject;
  const running = row.running ?? byPlan[plan];
  const most = row.most ?? sharing.organizationRunning;
  return {
    running,
    waiting: row.waiting ?? waitingJobs,
    kept: keepsPlaces ? keptOf(running) : 0,
    weight: sharing.weights[plan],
    ...(row.org_id !== null && most !== null && { organization: { id: row.org_id, running: most } }),
  };
};

/** How many jobs of a type projects may have: by their plan, or as operators set it. */
export const limitsOf = async (
  db: Queryable,
  job: Pick<JobDefinition, 'type' | 'running' | 'keepsPlaces'>,
  request: LimitsRequest,
): Promise<Map<string, Share>> => {
  const rows = await db.query<LimitRow>(
    `select asked.id, p.plan, p.org_id, l.running, l.waiting, o.running as most
     from unnest($1::uuid[]) as asked (id)
     left join projects p on p.id = asked.id
     left join job_limits l on l.project_id = asked.id and l.type = $2
     left join organization_limits o on o.org_id = p.org_id and o.type = $2`,
    [request.projectIds, job.type],
    'job-limits',
  );
  return new Map(rows.map((row) => [row.id, shareOf(row, job, request)]));
};

/**
 * The gate's rules: each project's limits by its plan, or as operators set them, and what is paused.
 * @param waitingJobs how many jobs of one type may wait (PLINTH_WAITING_JOBS)
 */
export const rulesFrom = (
  db: ControlDb,
  jobs: readonly JobDefinition[],
  waitingJobs: number,
  sharing: Sharing = alike,
): GateRules => ({
  limitsOf: async (type, projectIds) => {
    const job = jobs.find((each) => each.type === type) ?? { type, running: none };
    return limitsOf(db, job, { projectIds, waitingJobs, sharing });
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
