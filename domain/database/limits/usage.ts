import type { Client } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { createPermits } from '#lib/permits.ts';

/** How much of a project's database is used. */
export interface DatabaseUsage {
  readonly tables: number;
  /** The rows of the largest table. */
  readonly rows: number;
  readonly bytes: number;
}

/** The platform's own part of the database is not the project's; the record of its migrations is. */
const bytes = `pg_database_size(current_database()) - coalesce((
  select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'S', 'm') and n.nspname = 'plinth'), 0)`;

/** Counts what is there now. */
export const readUsage = async (client: Client): Promise<DatabaseUsage> => {
  const { rows } = await client.query<DatabaseUsage>(
    `select plinth.count_tables()::float8 as tables, (${bytes})::float8 as bytes,
       coalesce((select max(held) from (
         select sum(delta) as held from plinth.row_deltas group by counter) as counts), 0)::float8 as rows`,
  );
  return rows[0] ?? { tables: 0, rows: 0, bytes: 0 };
};

const connectionsAtOnce = 4;
const waitMs = 3000;

const readers = createPermits(
  connectionsAtOnce,
  waitMs,
  () =>
    new ServiceError('dependency_unavailable', 'Too many ask for the usage of projects just now. Try again shortly.', {
      headers: { 'Retry-After': '1' },
    }),
);

const inTurn = async (read: () => Promise<DatabaseUsage>): Promise<DatabaseUsage> => {
  await readers.acquire();
  try {
    return await read();
  } finally {
    readers.release();
  }
};

interface Flight {
  readonly running: Promise<DatabaseUsage>;
  next?: Promise<DatabaseUsage>;
}

/** By project. */
const flights = new Map<string, Flight>();

const takeOff = (projectId: string, read: () => Promise<DatabaseUsage>): Promise<DatabaseUsage> => {
  const running = inTurn(read);
  const flight: Flight = { running };
  flights.set(projectId, flight);
  const land = (): void => {
    if (flights.get(projectId) === flight && flight.next === undefined) flights.delete(projectId);
  };
  running.then(land, land);
  return running;
};

/**
 * Reads a project's usage over a connection as the platform, of which a process opens no more than 4 at a time for
 * this. Callers that arrive during a read share the next one: the result is never older than the request.
 * @throws {ServiceError} `dependency_unavailable` after 3 s without a turn
 */
export const readUsageInTurn = (projectId: string, read: () => Promise<DatabaseUsage>): Promise<DatabaseUsage> => {
  const flight = flights.get(projectId);
  if (flight === undefined) return takeOff(projectId, read);
  const begin = (): Promise<DatabaseUsage> => takeOff(projectId, read);
  flight.next ??= flight.running.then(begin, begin);
  return flight.next;
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
  readonly max: number;
}

const countersOf = async (client: Client): Promise<Counter[]> => {
  const { rows } = await client.query<Counter>(
    `select c.id, d.deltas::int as deltas, d.held::float8 as held, plinth.top_of(c.id)::float8 as top,
       plinth.max_rows()::float8 as max
     from plinth.counters c
     join lateral (select count(*) as deltas, coalesce(sum(delta), 0) as held from plinth.row_deltas where counter = c.id) d on true`,
  );
  return rows;
};

const fewDeltas = 8;

/**
 * Lowers the upper bound of a table's rows to the real number, while no rows are being added. In two transactions: the
 * bound is lowered after the deltas that it stands for are deleted for good.
 */
const lowerBound = async (client: Client, { id }: Counter): Promise<void> => {
  await client.query('select plinth.fold_deltas($1)', [id]);
  await client.query('select plinth.lower_bound($1)', [id]);
};

/** Folds the deltas of each table, and lowers bounds that have come near the limit. No caller waits for it. */
export const foldCounters = async (client: Client): Promise<void> => {
  await client.query('select plinth.lower_tables()');
  for (const counter of await countersOf(client)) {
    if (counter.top > counter.max / 2 && counter.top > counter.held) await lowerBound(client, counter);
    else if (counter.deltas > fewDeltas) await client.query('select plinth.merge_deltas($1)', [counter.id]);
  }
};
