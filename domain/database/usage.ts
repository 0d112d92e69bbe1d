import type { Client } from 'pg';

/** How much of a project's database is used. */
export interface DatabaseUsage {
  readonly tables: number;
  /** Of the table that has most. */
  readonly rows: number;
  readonly bytes: number;
}

/** The platform's own part of the database is not the project's. */
const bytes = `pg_database_size(current_database()) - coalesce((
  select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'S', 'm') and (n.nspname = 'plinth' or starts_with(n.nspname::text, 'plinth_'))), 0)`;

/** Counts what is there now. */
export const readUsage = async (client: Client): Promise<DatabaseUsage> => {
  const { rows } = await client.query<DatabaseUsage>(
    `select plinth.count_tables()::float8 as tables, (${bytes})::float8 as bytes,
       coalesce((select max(held) from (
         select sum(delta) as held from plinth.row_deltas group by counter) as counts), 0)::float8 as rows`,
  );
  return rows[0] ?? { tables: 0, rows: 0, bytes: 0 };
};

/** Measures the size and says so to the triggers, which refuse writes above the limit. */
export const measureSize = async (client: Client): Promise<void> => {
  await client.query(
    `update plinth.limits set bytes = measured.bytes, size_exceeded = coalesce(measured.bytes > max_bytes, false)
     from (select (${bytes})::bigint as bytes) as measured where limits.bytes is distinct from measured.bytes
       or size_exceeded is distinct from coalesce(measured.bytes > max_bytes, false)`,
  );
};

interface Counter {
  readonly id: number;
  readonly deltas: number;
  readonly held: number;
  readonly top: number;
  readonly most: number;
}

const countersOf = async (client: Client): Promise<Counter[]> => {
  const { rows } = await client.query<Counter>(
    `select c.id, d.deltas::int as deltas, d.held::float8 as held, s.last_value::float8 as top,
       plinth.max_rows()::float8 as most
     from plinth.counters c
     join lateral (select count(*) as deltas, coalesce(sum(delta), 0) as held from plinth.row_deltas where counter = c.id) d on true
     join pg_sequences s on s.schemaname = 'plinth' and s.sequencename = 'rows_' || c.id`,
  );
  return rows;
};

const fewDeltas = 8;

/**
 * Brings the upper bound of a table's rows down to what is there, when nobody is just adding any. In two transactions: the
 * bound is lowered after the deltas that it stands for are gone for good.
 */
const lowerBound = async (client: Client, { id }: Counter): Promise<void> => {
  await client.query('select plinth.fold_deltas($1)', [id]);
  await client.query('select plinth.lower_bound($1)', [id]);
};

/** Puts the deltas of each table together, and lowers bounds that have come near the limit. Nobody waits for it. */
export const foldCounters = async (client: Client): Promise<void> => {
  for (const counter of await countersOf(client)) {
    if (counter.top > counter.most / 2 && counter.top > counter.held) await lowerBound(client, counter);
    else if (counter.deltas > fewDeltas) await client.query('select plinth.merge_deltas($1)', [counter.id]);
  }
};
