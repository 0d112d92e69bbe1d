import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';
import { maxSum } from './call-store.ts';
import { type Details, type LoggedCall, callColumns } from './calls.ts';
import { addedColumns, dayBegins, dayMs, dayText, marginMs, noKey } from './roll-up.ts';

interface Sum extends Details {
  readonly requests: number;
  /** The tokens of prompts and answers. */
  readonly tokens: number;
  readonly cost_nano_usd: number;
}

export interface UsageReport extends Details {
  readonly total_requests: number;
  readonly total_tokens: { readonly prompt: number; readonly completion: number };
  readonly total_cost_nano_usd: number;
  readonly by_provider: Readonly<Record<string, Sum>>;
  /** Days (UTC) with calls, in order. */
  readonly by_day: readonly (Sum & { readonly day: string })[];
  /** The newest 50. */
  readonly recent_logs: readonly LoggedCall[];
}

interface Row extends Readonly<Record<(typeof addedColumns)[number], number>> {
  readonly day: string;
  readonly provider: string;
  readonly requests: number;
}

const maxRecent = 50;

// One statement, one view: each call is in its day's sum, or in the days that are not added up yet.
const counted = `
  select d.day, d.provider, d.model, d.status, nullif(d.api_key_id, '${noKey}') as api_key_id, d.requests,
    ${addedColumns.map((name) => `d.${name}`).join(', ')}
  from ai_usage_days d, ai_usage_rolled r
  where d.project_id = $1 and d.day >= $2::date and d.day <= r.day
  union all
  select (c.started_at at time zone 'utc')::date, c.provider, c.model, c.status, c.api_key_id, 1,
    ${addedColumns.map((name) => `coalesce(c.${name}, 0)`).join(', ')}
  from ai_calls c, ai_usage_rolled r
  where c.project_id = $1 and c.status <> 'open'
    and c.id >= $3
    and (c.started_at at time zone 'utc')::date >= greatest($2::date, r.day + 1)`;

const sums = ['requests', ...addedColumns]
  .map((name) => `least(sum(${name}), ${maxSum})::bigint as ${name}`)
  .join(', ');

const sumsSql = `select day::text, provider, ${sums} from (${counted}) counted
  group by day, provider order by day, provider`;

/** The largest whole numbers that JSON keeps exact. */
const added = (a: number, b: number): number => Math.min(a + b, maxSum);

const total = (rows: readonly Row[], name: keyof Omit<Row, 'day' | 'provider'>): number =>
  rows.reduce((sum, row) => added(sum, row[name]), 0);

const detailsOf = (rows: readonly Row[]): Details => ({
  prompt_tokens_details: {
    cached_tokens: total(rows, 'cached_tokens'),
    cache_write_tokens: total(rows, 'cache_write_tokens'),
  },
  completion_tokens_details: { reasoning_tokens: total(rows, 'reasoning_tokens') },
});

const sumOf = (rows: readonly Row[]): Sum => ({
  requests: total(rows, 'requests'),
  tokens: added(total(rows, 'prompt_tokens'), total(rows, 'completion_tokens')),
  cost_nano_usd: total(rows, 'cost_nano_usd'),
  ...detailsOf(rows),
});

const sumsBy = (rows: readonly Row[], keyOf: (row: Row) => string): (readonly [string, Sum])[] =>
  [...Map.groupBy(rows, keyOf)].map(([key, ofKey]) => [key, sumOf(ofKey)]);

const recentCalls = (db: Queryable, projectId: string): Promise<LoggedCall[]> =>
  db.query<LoggedCall>(
    `select ${callColumns} from ai_calls where project_id = $1 and status <> 'open' order by id desc limit ${maxRecent}`,
    [projectId],
    'recent-ai-calls',
  );

/** From which id on calls may not be added up yet; the day that is added up meanwhile is asked for in the statement. */
const firstLiveId = async (db: Queryable, from: string): Promise<string> => {
  const [rolled] = await db.query<{ day: string }>('select day::text from ai_usage_rolled');
  const after = rolled === undefined ? 0 : dayBegins(rolled.day) + dayMs;
  return firstIdAt(Math.max(after, dayBegins(from)) - marginMs);
};

/** Today and the days before (UTC): the first of them. */
const firstDayOf = (days: number, now: Date): string => dayText(dayBegins(dayText(now.getTime())) - (days - 1) * dayMs);

/**
 * Returns the usage of a project of today and of the days before (UTC), without running calls.
 * @param days how many, today with them
 */
export const usageReport = async (
  db: Queryable,
  projectId: string,
  days: number,
  now = new Date(),
): Promise<UsageReport> => {
  const from = firstDayOf(days, now);
  const [rows, recent] = await Promise.all([
    db.query<Row>(sumsSql, [projectId, from, await firstLiveId(db, from)], 'ai-usage'),
    recentCalls(db, projectId),
  ]);
  return {
    total_requests: total(rows, 'requests'),
    total_tokens: { prompt: total(rows, 'prompt_tokens'), completion: total(rows, 'completion_tokens') },
    total_cost_nano_usd: total(rows, 'cost_nano_usd'),
    ...detailsOf(rows),
    by_provider: Object.fromEntries(sumsBy(rows, (row) => row.provider)),
    by_day: sumsBy(rows, (row) => row.day).map(([day, sum]) => ({ day, ...sum })),
    recent_logs: recent,
  };
};

/** The sums of the calls of one model, by one key, on one day. */
interface UsageGroup {
  readonly day: string;
  readonly provider: string;
  readonly model: string;
  /** Null: they were made without a key, or before keys were recorded. */
  readonly api_key_id: string | null;
  readonly requests: number;
  /** The part of them that did not end well. */
  readonly failed: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_nano_usd: number;
}

interface GroupFilter {
  readonly days: number;
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
  /** Null: calls without a key. */
  readonly apiKeyId?: string | null | undefined;
}

/** A year of 25 models by one key each. */
export const maxGroups = 10_000;

const groupsSql = `select day::text, provider, model, api_key_id, ${sums},
    coalesce(sum(requests) filter (where status <> 'success'), 0)::bigint as failed
  from (${counted}) counted
  where ($4::text is null or provider = $4) and ($5::text is null or model = $5)
    and ($6::uuid is null or api_key_id = $6) and (not $7 or api_key_id is null)
  group by day, provider, model, api_key_id
  order by day desc, cost_nano_usd desc, provider, model, api_key_id limit ${maxGroups + 1}`;

type GroupRow = UsageGroup & Readonly<Record<(typeof addedColumns)[number], number>>;

/**
 * The usage of a project by day, model and key, the latest day first and within it what cost most.
 * @returns 10,000 groups at most, and whether there are more
 */
export const usageGroups = async (
  db: Queryable,
  projectId: string,
  { days, provider, model, apiKeyId }: GroupFilter,
  now = new Date(),
): Promise<{ readonly groups: UsageGroup[]; readonly isCut: boolean }> => {
  const from = firstDayOf(days, now);
  const rows = await db.query<GroupRow>(groupsSql, [
    projectId,
    from,
    await firstLiveId(db, from),
    provider ?? null,
    model ?? null,
    apiKeyId ?? null,
    apiKeyId === null,
  ]);
  const groups = rows
    .slice(0, maxGroups)
    .map(({ cached_tokens: _read, cache_write_tokens: _written, reasoning_tokens: _thought, ...group }) => group);
  return { groups, isCut: rows.length > maxGroups };
};
