import type { ClientBase } from 'pg';

/** A step that was applied. */
export interface AppliedMigration {
  readonly name: string;
  readonly checksum: string;
  readonly applied_at: Date;
  readonly duration_ms: number;
}

/** In the order in which they were applied. */
export const listApplied = async (
  client: ClientBase,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ migrations: AppliedMigration[]; total: number }> => {
  const count = await client.query<{ total: number }>(
    'select pg_catalog.count(*)::int as total from plinth_migrations.applied',
  );
  const { rows } = await client.query<AppliedMigration>(
    `select name, checksum, applied_at, duration_ms from plinth_migrations.applied order by position limit $1 offset $2`,
    [limit, offset],
  );
  return { migrations: rows, total: count.rows[0]?.total ?? 0 };
};

/** The checksums of those among `names` that were applied. */
export const appliedAmong = async (client: ClientBase, names: readonly string[]): Promise<Map<string, string>> => {
  const { rows } = await client.query<Pick<AppliedMigration, 'name' | 'checksum'>>(
    'select name, checksum from plinth_migrations.applied where name operator(pg_catalog.=) any ($1::pg_catalog.text[])',
    [names],
  );
  return new Map(rows.map(({ name, checksum }) => [name, checksum]));
};

/** Records a step within the transaction that ran it. */
export const recordApplied = async (
  client: ClientBase,
  of: Pick<AppliedMigration, 'name' | 'checksum' | 'duration_ms'>,
): Promise<void> => {
  await client.query('select plinth_migrations.record($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int4)', [
    of.name,
    of.checksum,
    of.duration_ms,
  ]);
};

// Any number that no other lock uses; the lock is of this database alone.
const pushLock = 7_245_131;

/** Waits for other pushes. The lock ends with the transaction, and the step's SQL cannot give it back earlier. */
export const lockPushes = async (client: ClientBase, waitMs: number): Promise<void> => {
  await client.query(`set local lock_timeout = ${waitMs}`);
  await client.query('select pg_catalog.pg_advisory_xact_lock($1)', [pushLock]);
  await client.query('set local lock_timeout to default');
};
