import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { ByPlan } from '#queues/define.ts';

/** How many jobs of a type a project may have accepted in a calendar month (UTC), by plan; null: any number. */
export type MonthlyCaps = { readonly [Plan in keyof ByPlan]: number | null };

/** Stands for no limit in the table; far beyond what anybody counts, and within what JavaScript holds. */
export const unlimited = Number.MAX_SAFE_INTEGER;

/** The present month of the database's clock. */
export const thisMonth = `date_trunc('month', now() at time zone 'utc')::date`;

/** The first instant of the month after that one. */
const monthAfter = (now: Date): Date => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));

/**
 * @param limit the project's own; it is part of the message
 * @param limit the project's own; it is told
 */
export const capExceeded = (limit: number | null, now = new Date()): ServiceError => {
  const resets = monthAfter(now);
  const max = limit === null ? '' : ` of ${limit}`;
  return new ServiceError(
    'monthly_cap_exceeded',
    `The project has used up its runs${max} for this month. The count begins anew at ${resets.toISOString()}.`,
    {
      hint: 'A larger plan has a larger cap; GET /projects/{id}/usage tells how much is used.',
      headers: { 'Retry-After': String(Math.max(1, Math.ceil((resets.getTime() - now.getTime()) / 1000))) },
    },
  );
};

interface MonthlyUsage {
  readonly used: number;
  readonly resets_at: Date;
}

export const usageOf = async (db: Queryable, projectId: string, type: string): Promise<MonthlyUsage> => {
  const row = await maybeOne(
    db.query<MonthlyUsage>(
      `select coalesce((select used from job_usage
           where project_id = $1 and type = $2 and month = ${thisMonth}), 0) as used,
         (date_trunc('month', now() at time zone 'utc') + interval '1 month') at time zone 'utc' as resets_at`,
      [projectId, type],
    ),
  );
  return row ?? { used: 0, resets_at: monthAfter(new Date()) };
};

/**
 * Counts one more run of a job that is there already. False when the cap is reached.
 * @param limit null: none
 */
export const takeOne = async (
  db: Queryable,
  projectId: string,
  type: string,
  limit: number | null,
): Promise<boolean> => {
  const rows = await db.query(
    `insert into job_usage as u (project_id, type, month, used, granted, most)
     select $1, $2, ${thisMonth}, 1, 1, coalesce($3::bigint, ${unlimited}) where coalesce($3::bigint, 1) > 0
     on conflict (project_id, type, month) do update set used = u.used + 1, granted = 1, most = excluded.most
       where u.used < excluded.most
     returning used`,
    [projectId, type, limit],
  );
  return rows.length > 0;
};

const keptMonths = 13;

/** Counts of long ago. */
export const sweepUsage = async (db: Queryable): Promise<void> => {
  await db.query(`delete from job_usage where month < ${thisMonth} - make_interval(months => $1)`, [keptMonths]);
};
