import type { Queryable } from '#lib/control-db.ts';

/** The size of a table with its indexes and what is stored beside its rows. */
export interface TableSize {
  readonly schema: string;
  readonly name: string;
  readonly bytes: number;
}

/** A project's database, measured. */
export interface DatabaseSize {
  /** Without the platform's own part. */
  readonly bytes: number;
  /** The largest ones; null: they could not be measured just now. */
  readonly tables: readonly TableSize[] | null;
}

/** Records the size of a project's database, for this hour and this day; a later one replaces it. */
export const writeSize = async (db: Queryable, projectId: string, { bytes, tables }: DatabaseSize): Promise<void> => {
  await db.query(
    `insert into project_sizes (project_id, seconds, at, bytes, tables)
     select p.id, span.seconds, date_bin(make_interval(secs => span.seconds), now(), 'epoch'), $2::bigint,
       case span.seconds when 86400 then $3::jsonb end
     from projects p, (values (3600), (86400)) as span (seconds) where p.id = $1
     on conflict (project_id, seconds, at) do update
       set bytes = excluded.bytes, tables = coalesce(excluded.tables, project_sizes.tables)`,
    [projectId, bytes, tables === null ? null : JSON.stringify(tables)],
  );
};

/** The ranges that can be read, and of which rows. */
export const sizeRanges = {
  '24h': { hours: 24, seconds: 3600 },
  '7d': { hours: 168, seconds: 3600 },
  '30d': { hours: 720, seconds: 3600 },
  '1y': { hours: 8784, seconds: 86_400 },
} as const;
export type SizeRange = keyof typeof sizeRanges;

/** A size of the database, which it had until the next one. */
interface SizePoint {
  readonly at: Date;
  readonly bytes: number;
}

/** The largest tables, and how large they were at the beginning. */
interface TableGrowth extends TableSize {
  /** Null: it was not among the largest then. */
  readonly bytes_before: number | null;
}

export interface SizeHistory {
  /** The oldest first; the first may be from before the range: the database had that size when the range began. */
  readonly points: readonly SizePoint[];
  readonly tables: readonly TableGrowth[];
}

const readPoints = async (db: Queryable, projectId: string, range: SizeRange): Promise<SizePoint[]> => {
  const { hours, seconds } = sizeRanges[range];
  return db.query<SizePoint>(
    `select at, bytes::float8 as bytes from project_sizes
     where project_id = $1 and seconds = $2 and at >= coalesce(
       (select max(before.at) from project_sizes before
        where before.project_id = $1 and before.seconds = $2 and before.at <= now() - make_interval(hours => $3)),
       '-infinity')
     order by at`,
    [projectId, seconds, hours],
  );
};

const readTables = async (db: Queryable, projectId: string, range: SizeRange): Promise<TableGrowth[]> => {
  const { hours } = sizeRanges[range];
  const days = await db.query<{ tables: TableSize[] }>(
    `with days as (
       select at, tables from project_sizes where project_id = $1 and seconds = 86400 and tables is not null)
     (select tables from days order by at desc limit 1)
     union all
     (select tables from days order by at > now() - make_interval(hours => $2),
        case when at > now() - make_interval(hours => $2) then at end, at desc limit 1)`,
    [projectId, hours],
  );
  const [now = { tables: [] }, before = now] = days;
  const keyOf = ({ schema, name }: TableSize): string => JSON.stringify([schema, name]);
  const known = new Map(before.tables.map((table) => [keyOf(table), table.bytes]));
  return now.tables.map((table) => ({ ...table, bytes_before: known.get(keyOf(table)) ?? null }));
};

/** How the size of a project's database has changed. */
export const readSizes = async (db: Queryable, projectId: string, range: SizeRange): Promise<SizeHistory> => {
  const [points, tables] = await Promise.all([readPoints(db, projectId, range), readTables(db, projectId, range)]);
  return { points, tables };
};

/** Hours are kept for 31 days, days for 400; the newest row of each stays, since nothing may have changed after it. */
export const sweepProjectSizes = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from project_sizes old
     where ((seconds = 3600 and at < now() - interval '31 days') or (seconds = 86400 and at < now() - interval '400 days'))
       and exists (select from project_sizes newer
         where newer.project_id = old.project_id and newer.seconds = old.seconds and newer.at > old.at)`,
  );
};
