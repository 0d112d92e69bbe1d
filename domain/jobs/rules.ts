import { globalLimitOf } from './global-limits.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Plan } from '#domain/projects/store.ts';
import type { GateRules } from '#queues/gate/types.ts';
import type { Limits } from '#queues/gate/types.ts';
import type { JobDefinition } from '#queues/define.ts';

interface LimitRow {
  readonly id: string;
  readonly plan: Plan | null;
  readonly running: number | null;
  readonly waiting: number | null;
}

/** Jobs of a deleted project pass the gate and are refused when they would start. */
const ofGoneProject: Plan = 'free';

/**
 * The gate's rules: each project's limits by its plan, or as operators set them, and what is paused.
 * @param waitingJobs how many jobs of one type may wait (PLINTH_WAITING_JOBS)
 */
export const rulesFrom = (db: ControlDb, jobs: readonly JobDefinition[], waitingJobs: number): GateRules => ({
  limitsOf: async (type, projectIds) => {
    const rows = await db.query<LimitRow>(
      `select asked.id, p.plan, l.running, l.waiting
       from unnest($1::uuid[]) as asked (id)
       left join projects p on p.id = asked.id
       left join job_limits l on l.project_id = asked.id and l.type = $2`,
      [projectIds, type],
      'job-limits',
    );
    const running = jobs.find((job) => job.type === type)?.running;
    return new Map<string, Limits>(
      rows.map((row) => [
        row.id,
        {
          running: row.running ?? running?.[row.plan ?? ofGoneProject] ?? 0,
          waiting: row.waiting ?? waitingJobs,
        },
      ]),
    );
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
