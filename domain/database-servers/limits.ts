import type { Client, DatabaseError } from 'pg';

/** The limits of a plan for a project's database (interface, "Limits"); null: no limit. */
export interface PlanLimits {
  readonly tables: number | null;
  /** The rows of each table. */
  readonly rows: number | null;
  readonly databaseBytes: number;
}

const mib = 1024 * 1024;

export const planLimits = {
  free: { tables: 10, rows: 10_000, databaseBytes: 500 * mib },
  pro: { tables: 100, rows: 1_000_000, databaseBytes: 10 * 1024 * mib },
  enterprise: { tables: null, rows: null, databaseBytes: 100 * 1024 * mib },
} as const satisfies Readonly<Record<string, PlanLimits>>;

export type Plan = keyof typeof planLimits;

/** Errors that the triggers of migrations/project/0004_limits.sql raise. */
const planLimitState = 'PLL01';
/** Errors that those of 0003_events.sql raise while too many events wait. */
const backlogState = 'PLE01';

/** Whether the server refused something because of the project's plan: 403 `plan_limit_exceeded`. */
export const isPlanLimit = (sqlState: string | undefined): boolean => sqlState === planLimitState;

/** The relay takes some thousand events a second: a full outbox has room again soon, unless its webhooks do not keep up. */
export const retryOnBacklog = { 'Retry-After': '5' } as const;

/** Whether the server refused a write because too many events wait to be taken: 503 `event_backlog_full`. */
export const isBacklogFull = (sqlState: string | undefined): boolean => sqlState === backlogState;

/** The message of such a refusal, without the code that it begins with in SQL. */
export const limitMessage = (message: string): string =>
  message.replace(/^(plan_limit_exceeded|event_backlog_full|event_too_large): /, '');

/** The limit that a refusal names, from its `detail`: `limit=rows value=10000`. */
export const limitDetails = (
  error: DatabaseError,
): { readonly limit: 'tables' | 'rows' | 'database_bytes'; readonly value: number } | null => {
  const [, limit, value] = /^limit=(tables|rows|database_bytes) value=(\d+)$/.exec(error.detail ?? '') ?? [];
  if (limit === undefined) return null;
  return { limit: limit as 'tables' | 'rows' | 'database_bytes', value: Number(value) };
};

/** Writes the plan's limits into a project's database. Nothing is written when they are there already. */
export const writeLimits = async (client: Client, plan: Plan): Promise<void> => {
  const { tables, rows, databaseBytes } = planLimits[plan];
  await client.query(
    `update plinth.limits set max_tables = $1, max_rows = $2, max_bytes = $3,
       size_exceeded = coalesce(bytes > $3, false)
     where (max_tables, max_rows, max_bytes) is distinct from ($1::bigint, $2::bigint, $3::bigint)`,
    [tables, rows, databaseBytes],
  );
};
