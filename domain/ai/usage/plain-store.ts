import type { Queryable } from '#lib/control-db.ts';
import {
  type EndedCall,
  endedColumns,
  endsText,
  givenEnds,
  givenIntents,
  intentsText,
  onConflictEnd,
} from './call-rows.ts';
import type { CallIntent } from './calls.ts';

/**
 * The way of most calls into ai_calls: those of projects without a budget, of days that are not added up yet. Statements
 * that do nothing where that is not so, and are shorter than the whole ones (`call-store.ts`).
 */

// Asked in the statement that records, and locked until it is over: a budget that is made meanwhile waits, and counts it.
const budgetedOf = `
  budgeted as materialized (
    select p.project_id from (select distinct project_id from given order by 1) p, ai_budget_of(project_id)
  )`;

const beginSql = `
  with given as materialized (${givenIntents}), ${budgetedOf}, recorded as (
    insert into ai_calls
      (id, project_id, kind, provider, model, request_id, started_at, reserved_nano_usd, keeper)
    select id, project_id, kind, provider, model, request_id, started_at, wanted, $2::uuid from given
    where not exists (select from budgeted)
    on conflict (id) do nothing
  )
  select project_id from budgeted`;

const endSql = `
  with given as materialized (${givenEnds}), ${budgetedOf}, late as materialized (
    select from ai_usage_rolled where closing >= (select (min(started_at) at time zone 'utc')::date from given)
  ), recorded as (
    insert into ai_calls as c (${endedColumns})
    select *, 0, $2::uuid from given
    where not exists (select from budgeted) and not exists (select from late)
    order by id
    ${onConflictEnd}
  )
  select from budgeted union all select from late`;

/** @returns the projects with a budget; if there are any, nothing was recorded */
export const insertPlainIntents = async (
  db: Queryable,
  intents: readonly CallIntent[],
  heartbeat: string,
): Promise<readonly string[]> => {
  const rows = await db.query<{ project_id: string }>(
    beginSql,
    [intentsText(intents), heartbeat],
    'begin-plain-ai-calls',
  );
  return rows.map((row) => row.project_id);
};

/** @returns whether they were recorded: all of them or none */
export const upsertPlainEnds = async (
  db: Queryable,
  calls: readonly EndedCall[],
  heartbeat: string,
): Promise<boolean> => {
  const refused = await db.query(endSql, [endsText(calls), heartbeat], 'end-plain-ai-calls');
  return refused.length === 0;
};
