import { type Client, DatabaseError } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { createPermits } from '#lib/permits.ts';
import { type Project, projectColumns } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { planLimits, writeLimits } from '#domain/database-servers/limits.ts';
import { type DatabaseServers, inDatabase } from '#domain/database-servers/database-servers.ts';
import { type DatabaseSize, type TableSize, writeSize } from '#domain/stats/project-sizes.ts';

/** How much of a project's database is used. */
export interface DatabaseUsage {
  readonly tables: number;
  /** The rows of the largest table. */
  readonly rows: number;
  readonly bytes: number;
  /** All files together, which are elsewhere. */
  readonly fileBytes: number;
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
         select sum(delta) as held from plinth.row_deltas group by counter) as counts), 0)::float8 as rows,
       plinth.file_bytes()::float8 as "fileBytes"`,
  );
  return rows[0] ?? { tables: 0, rows: 0, bytes: 0, fileBytes: 0 };
};

const lockNotAvailable = '55P03';

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

const maxListedTables = 10;
/** The tables whose exact size is computed, chosen by the server's own estimate: that takes some ms. */
const measuredTables = 50;

/**
 * The largest tables of a project. A table that somebody has locked whole cannot be measured: then there are none, and
 * the next sweep tries again.
 */
const readTableSizes = async (client: Client): Promise<DatabaseSize['tables']> => {
  try {
    const { rows } = await client.query<TableSize>(
      `select n.nspname as schema, c.relname as name, c.bytes::float8 as bytes from (
         select relname, relnamespace, pg_total_relation_size(oid) as bytes from (
           select c.oid, c.relname, c.relnamespace from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where c.relkind in ('r', 'm') and n.nspname !~ '^pg_' and n.nspname not in ('plinth', 'information_schema')
           order by c.relpages desc, c.oid limit ${measuredTables}) as candidates offset 0) as c
       join pg_namespace n on n.oid = c.relnamespace where c.bytes is not null
       order by c.bytes desc, 1, 2 limit ${maxListedTables}`,
    );
    return rows;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === lockNotAvailable) return null;
    throw error;
  }
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

interface LimitsSweepDeps {
  readonly db: Queryable;
  readonly servers: Pick<DatabaseServers, 'admin' | 'connectTo'>;
  readonly log: Log;
}

interface Standing {
  readonly name: string;
  readonly bytes: number;
  /** Grows with each row that is written. */
  readonly writes: number;
}

// Among advisory locks of the server's maintenance database: one sweep at a time.
const sweepLock = 7_245_033;
const atOnce = 4;

const standingsOn = async (deps: LimitsSweepDeps, serverId: string, names: readonly string[]): Promise<Standing[]> => {
  const admin = await deps.servers.admin(serverId);
  const { rows } = await admin.query<Standing>(
    `select d.datname as name, pg_database_size(d.oid)::float8 as bytes,
       (s.tup_inserted + s.tup_updated + s.tup_deleted)::float8 as writes
     from pg_database d join pg_stat_database s on s.datid = d.oid where d.datname = any ($1) and d.datallowconn`,
    [names],
  );
  return rows;
};

/**
 * Does what a plan asks for in one database: its limits, its counts, its size.
 * @returns how large it is
 */
export const sweepDatabase = (servers: Pick<DatabaseServers, 'connectTo'>, project: Project): Promise<DatabaseSize> =>
  inDatabase(servers, project, async (client) => {
    await client.query(`set lock_timeout = '2s'`);
    await writeLimits(client, project.plan);
    await foldCounters(client);
    await measureSize(client);
    const { rows } = await client.query<{ bytes: number }>('select bytes::float8 as bytes from plinth.limits');
    return { bytes: rows[0]?.bytes ?? 0, tables: await readTableSizes(client) };
  });

/**
 * Sweeps the databases that were written to since this process last saw them, and those near their size. One query per
 * server finds them: a thousand idle databases cost no connection.
 * @returns how to sweep once
 */
export const createLimitsSweep = (deps: LimitsSweepDeps): (() => Promise<void>) => {
  const seen = new Map<string, string>();

  const visit = async (project: Project, standing: Standing): Promise<void> => {
    const mark = `${project.plan} ${standing.writes}`;
    const isNear = standing.bytes > planLimits[project.plan].databaseBytes * 0.8;
    if (seen.get(project.id) === mark && !isNear) return;
    try {
      await writeSize(deps.db, project.id, await sweepDatabase(deps.servers, project));
      seen.set(project.id, mark);
    } catch (error) {
      deps.log.warn({ err: error, project_id: project.id }, 'the limits of a project were not swept');
    }
  };

  const sweepServer = async (serverId: string, projects: readonly Project[]): Promise<void> => {
    const names = projects.map(({ db_name }) => db_name);
    const standings = new Map((await standingsOn(deps, serverId, names)).map((row) => [row.name, row]));
    const left = projects.values();
    const worker = async (): Promise<void> => {
      for (const project of left) {
        const standing = standings.get(project.db_name);
        if (standing) await visit(project, standing);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  };

  const alone = async (serverId: string, work: () => Promise<void>): Promise<void> => {
    const client = await (await deps.servers.admin(serverId)).connect();
    try {
      const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [sweepLock]);
      if (rows[0]?.taken !== true) return;
      await work();
      await client.query('select pg_advisory_unlock($1)', [sweepLock]);
    } finally {
      client.release();
    }
  };

  return async () => {
    const projects = await deps.db.query<Project>(
      `select ${projectColumns} from projects p where p.deleted_at is null and p.status = 'active'`,
    );
    const here = new Set(projects.map(({ id }) => id));
    for (const id of seen.keys()) if (!here.has(id)) seen.delete(id);
    for (const [serverId, own] of Map.groupBy(projects, (project) => project.server_id)) {
      await alone(serverId, () => sweepServer(serverId, own));
    }
  };
};
