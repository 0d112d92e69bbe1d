import type { Client } from 'pg';

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

/**
 * The relay takes some thousand events a second: a full outbox has room again soon, unless its webhooks do not keep up.
 */
export const retryOnBacklog = { 'Retry-After': '5' } as const;

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
