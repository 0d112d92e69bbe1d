import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { maxSum, monthOf } from './call-store.ts';

/** The budget of a project for models in a calendar month (UTC). */
export interface Budget {
  readonly monthly_usd: number;
  /** Calls that do not fit are refused; else it is only reported. */
  readonly hard: boolean;
}

/** `used_usd`: what the calls that began this month have cost so far. */
export interface UsedBudget extends Budget {
  readonly used_usd: number;
}

const nanoPerUsd = 1_000_000_000;
const thisMonth = monthOf('now()');

interface Row {
  readonly monthly: number;
  readonly hard: boolean;
  readonly used: number;
}

const shown = ({ monthly, hard, used }: Row): UsedBudget => ({
  monthly_usd: monthly / nanoPerUsd,
  hard,
  used_usd: used / nanoPerUsd,
});

/** Undefined: there is none. */
export const getBudget = async (db: Queryable, projectId: string): Promise<UsedBudget | undefined> => {
  const row = await maybeOne(
    db.query<Row>(
      `select b.monthly_nano_usd as monthly, b.hard, coalesce(m.used_nano_usd, 0) as used from ai_budgets b
       left join ai_budget_months m on m.project_id = b.project_id and m.month = ${thisMonth}
       where b.project_id = $1`,
      [projectId],
    ),
  );
  return row && shown(row);
};

/**
 * Waits for the statements that are under way on the project's calls, and lets none of them go on until the transaction
 * ends (`ai_budget_of` asks for the same lock): each of them then either is seen here, or sees what is done here.
 */
const lockCalls = (tx: Queryable, projectId: string): Promise<unknown[]> =>
  tx.query('select pg_advisory_xact_lock(7245994, hashtext($1::uuid::text))', [projectId]);

/** Calls that began longer ago have ended, but for those whose ends Postgres could not take for so long. */
const settledMs = 15 * 60_000;

/** Sums the cost of a project's calls of this month that nothing changes any more. */
interface Settled {
  /** The first day of the month that was counted. */
  readonly month: string;
  /** Ids before this one are settled, but for `unsettled`. */
  readonly until: string;
  readonly used: number;
  /** Ids of calls that are open, or were given up and may still get their real end. */
  readonly unsettled: readonly string[];
}

// Not of the transaction's beginning: it may have waited for the lock beyond a month's end.
const monthNow = monthOf('clock_timestamp()');
const monthOfCall = monthOf('started_at');

/**
 * The greater part, which takes a while where there are millions: without the lock that all others' calls wait for,
 * too.
 */
const countSettled = async (tx: Queryable, projectId: string, now: Date): Promise<Settled> => {
  const monthBegins = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  // Ids are made a moment before or after a call's time.
  const from = Math.min(monthBegins - 3_600_000, now.getTime() - settledMs);
  const until = firstIdAt(now.getTime() - settledMs);
  const [row] = await tx.query<{ month: string; used: number; unsettled: string[] | null }>(
    `select ${monthNow}::text as month,
       least(
         coalesce(sum(cost_nano_usd) filter (where status not in ('open', 'incomplete')), 0), ${maxSum}
       )::bigint as used,
       array_agg(id) filter (where status in ('open', 'incomplete')) as unsettled
     from ai_calls where project_id = $1 and id >= $2 and id < $3 and ${monthOfCall} = ${monthNow}`,
    [projectId, firstIdAt(from), until],
  );
  if (row === undefined) throw new Error('a sum has no row');
  return { ...row, until, unsettled: row.unsettled ?? [] };
};

/**
 * From the first budget on calls count as they end; those before it are added up here, and the open ones take their
 * part.
 */
const countSoFar = async (tx: Queryable, projectId: string, settled: Settled): Promise<void> => {
  const { month, until, used, unsettled } = settled;
  await tx.query('delete from ai_budget_months where project_id = $1', [projectId]);
  await tx.query(
    `insert into ai_budget_months (project_id, month, used_nano_usd, reserved_nano_usd)
     select $1, now.month,
       least(coalesce(sum(cost_nano_usd), 0) + case now.month when $5::date then $4::bigint else 0 end, ${maxSum}),
       least(coalesce(sum(reserved_nano_usd), 0), ${maxSum})
     from (select ${monthNow} as month) now left join (
       select * from ai_calls where project_id = $1 and id >= $2
       union all
       select * from ai_calls where project_id = $1 and id = any($3::uuid[])
     ) recent on ${monthOfCall} = now.month
     group by now.month`,
    [projectId, until, unsettled, used, month],
  );
};

const hasBudget = async (tx: Queryable, projectId: string): Promise<boolean> =>
  (await tx.query('select from ai_budgets where project_id = $1', [projectId])).length > 0;

const deletedMeanwhile = (): never => {
  throw new ServiceError('conflict', 'The budget was deleted just now by somebody else. Set it once more.');
};

/**
 * In a transaction.
 * @throws {ServiceError} `conflict` when it was deleted at the same moment
 */
export const setBudget = async (
  tx: Queryable,
  projectId: string,
  budget: Budget,
  now = new Date(),
): Promise<UsedBudget> => {
  const settled = (await hasBudget(tx, projectId)) ? null : await countSettled(tx, projectId, now);
  await lockCalls(tx, projectId);
  // Another one may have been made meanwhile, or deleted.
  const isFirst = !(await hasBudget(tx, projectId));
  await tx.query(
    `insert into ai_budgets (id, project_id, monthly_nano_usd, hard) values ($1, $2, $3, $4)
     on conflict (project_id) do update
       set monthly_nano_usd = excluded.monthly_nano_usd, hard = excluded.hard, updated_at = now()`,
    [newId(), projectId, Math.round(budget.monthly_usd * nanoPerUsd), budget.hard],
  );
  if (isFirst) await countSoFar(tx, projectId, settled ?? deletedMeanwhile());
  const after = await getBudget(tx, projectId);
  if (after === undefined) throw new Error('the budget that was set is not there');
  return after;
};

/** In a transaction; also where there is none. */
export const deleteBudget = async (tx: Queryable, projectId: string): Promise<void> => {
  await lockCalls(tx, projectId);
  await tx.query('delete from ai_budgets where project_id = $1', [projectId]);
  await tx.query('delete from ai_budget_months where project_id = $1', [projectId]);
};

/** Among advisory locks of the control database: two at once would give the same back twice. */
const releaseLock = 7_245_993;

/**
 * Gives back what is reserved for no open call: an intent whose connection broke may have taken its part and left no
 * row. A call and its part change in one statement, so that whatever differs in one view of both is such a part.
 */
export const releaseLeftReservations = (db: ControlDb): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [releaseLock]);
    await tx.query(
      `with open as (
         select project_id, ${monthOfCall} as month,
           sum(reserved_nano_usd) as reserved
         from ai_calls where status = 'open' group by 1, 2
       ), leftover as materialized (
         select m.project_id, m.month, m.reserved_nano_usd - coalesce(o.reserved, 0) as left_over
         from ai_budget_months m left join open o using (project_id, month)
       )
       update ai_budget_months m set reserved_nano_usd = m.reserved_nano_usd - h.left_over
       from leftover h where h.left_over <> 0 and m.project_id = h.project_id and m.month = h.month`,
    );
  });

const retentionMonths = 13;

/** Counts of long ago. */
export const deleteOldMonths = async (db: Queryable): Promise<void> => {
  await db.query(`delete from ai_budget_months where month < ${thisMonth} - make_interval(months => $1)`, [
    retentionMonths,
  ]);
};
