import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';
import { maxSum } from './call-store.ts';
import type { CallKind, CallStatus } from './usage.ts';
import { addedColumns, dayBegins, dayText } from './roll-up.ts';

/** A call that has ended, as it is listed. */
interface LoggedCall {
  readonly id: string;
  readonly created_at: Date;
  readonly kind: CallKind;
  readonly provider: string;
  readonly model: string;
  readonly status: CallStatus;
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly prompt_tokens_details: Details['prompt_tokens_details'] | null;
  readonly completion_tokens_details: Details['completion_tokens_details'] | null;
  /** Null: not reported. */
  readonly service_tier: string | null;
  readonly tokens_source: 'reported' | 'estimated' | null;
  /** Null: not known, since the model has no price. */
  readonly cost_nano_usd: number | null;
  readonly latency_ms: number | null;
  readonly ttft_ms: number | null;
  readonly error_code: string | null;
  readonly request_id: string;
}

/** Parts of prompts and answers: they are in the sums of tokens, and are priced differently. */
interface Details {
  readonly prompt_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

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

const dayMs = 86_400_000;
const marginMs = 3_600_000;
const maxRecent = 50;

// One statement, one view: each call is in its day's sum, or in the days that are not added up yet.
const sumsSql = `
  select day::text, provider, sum(requests)::bigint as requests,
    ${addedColumns.map((name) => `least(sum(${name}), ${maxSum})::bigint as ${name}`).join(', ')}
  from (
    select d.day, d.provider, d.requests, ${addedColumns.map((name) => `d.${name}`).join(', ')}
    from ai_usage_days d, ai_usage_rolled r
    where d.project_id = $1 and d.day >= $2::date and d.day <= r.day
    union all
    select (c.started_at at time zone 'utc')::date, c.provider, 1,
      ${addedColumns.map((name) => `coalesce(c.${name}, 0)`).join(', ')}
    from ai_calls c, ai_usage_rolled r
    where c.project_id = $1 and c.status <> 'open'
      and c.id >= $3
      and (c.started_at at time zone 'utc')::date >= greatest($2::date, r.day + 1)
  ) counted
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
    `select id, started_at as created_at, kind, provider, model, status, prompt_tokens, completion_tokens,
       case when prompt_tokens is not null then json_build_object('cached_tokens', coalesce(cached_tokens, 0),
         'cache_write_tokens', coalesce(cache_write_tokens, 0)) end as prompt_tokens_details,
       case when completion_tokens is not null then
         json_build_object('reasoning_tokens', coalesce(reasoning_tokens, 0)) end as completion_tokens_details,
       service_tier, tokens_source, cost_nano_usd, latency_ms, ttft_ms, error_code, request_id
     from ai_calls where project_id = $1 and status <> 'open' order by id desc limit ${maxRecent}`,
    [projectId],
    'recent-ai-calls',
  );

/** From which id on calls may not be added up yet; the day that is added up meanwhile is asked for in the statement. */
const firstLiveId = async (db: Queryable, from: string): Promise<string> => {
  const [rolled] = await db.query<{ day: string }>('select day::text from ai_usage_rolled');
  const after = rolled === undefined ? 0 : dayBegins(rolled.day) + dayMs;
  return firstIdAt(Math.max(after, dayBegins(from)) - marginMs);
};

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
  const today = dayBegins(dayText(now.getTime()));
  const from = dayText(today - (days - 1) * dayMs);
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
