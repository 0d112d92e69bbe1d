import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { startPoller } from '#lib/poller.ts';
import type { Surface } from './surfaces.ts';

/*
 * Requests of projects, counted in memory and written every ten seconds. A process writes whole counts of its own rows
 * (migrations/control/0111_project_stats.ts).
 */

const flushMs = 10_000;
/** Rows that are counted at a time; requests of further projects are left out until there is room. */
const maxCounted = 50_000;
const batch = 1000;

/** Upper bounds of the answer times, in milliseconds; slower ones are in a last part of their own. */
const boundsMs = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000] as const;
/** Behind the parts by time stands the number of errors. */
const errorsAt = boundsMs.length + 1;

/** The lengths of rows, in seconds. */
const spans = [60, 3600] as const;
type Span = (typeof spans)[number];

interface Row {
  readonly projectId: string;
  readonly seconds: Span;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly surface: Surface;
  readonly counts: number[];
  isWritten: boolean;
}

export interface ProjectStats {
  readonly note: (request: {
    readonly projectId: string;
    readonly surface: Surface;
    readonly status: number;
    readonly ms: number;
  }) => void;
  /** Writes what was counted. */
  readonly flush: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const placeOf = (ms: number): number => {
  const place = boundsMs.findIndex((bound) => ms <= bound);
  return place === -1 ? boundsMs.length : place;
};

/** Rows of projects that are gone are left out; others of the same process are replaced by their newer counts. */
const write = async (db: Queryable, processId: string, rows: readonly Row[]): Promise<void> => {
  await db.query(
    `insert into project_stats (project_id, seconds, at, surface, process_id, counts)
     select new.project_id, new.seconds, to_timestamp(new.at / 1000.0), new.surface, $5,
       string_to_array(new.counts, ',')::int[]
     from unnest($1::uuid[], $2::int[], $3::bigint[], $4::text[], $6::text[])
       as new (project_id, seconds, at, surface, counts)
     join projects p on p.id = new.project_id
     on conflict (project_id, seconds, at, surface, process_id) do update set counts = excluded.counts`,
    [
      rows.map(({ projectId }) => projectId),
      rows.map(({ seconds }) => seconds),
      rows.map(({ at }) => at),
      rows.map(({ surface }) => surface),
      processId,
      rows.map(({ counts }) => counts.join(',')),
    ],
    'project-stats',
  );
};

export const createProjectStats = ({ db, log }: { readonly db: Queryable; readonly log: Log }): ProjectStats => {
  const processId = newId();
  const rows = new Map<string, Row>();

  const rowOf = (projectId: string, surface: Surface, seconds: Span): Row | undefined => {
    const at = Math.floor(Date.now() / (seconds * 1000)) * seconds * 1000;
    const name = `${projectId} ${surface} ${seconds} ${at}`;
    const present = rows.get(name);
    if (present !== undefined || rows.size >= maxCounted) return present;
    const counts = Array.from({ length: errorsAt + 1 }, () => 0);
    const row: Row = { projectId, seconds, at, surface, counts, isWritten: false };
    rows.set(name, row);
    return row;
  };

  const flush = async (): Promise<void> => {
    const changed = [...rows].filter(([, { isWritten }]) => !isWritten);
    for (let place = 0; place < changed.length; place += batch) {
      const part = changed.slice(place, place + batch);
      for (const [, row] of part) row.isWritten = true;
      try {
        await write(
          db,
          processId,
          part.map(([, row]) => row),
        );
      } catch (error) {
        for (const [, row] of part) row.isWritten = false;
        throw error;
      }
      await nextTurn();
    }
    const now = Date.now();
    for (const [name, { at, seconds, isWritten }] of rows)
      if (isWritten && at + seconds * 1000 < now) rows.delete(name);
  };
  const poller = startPoller(flush, {
    everyMs: flushMs,
    firstInMs: flushMs,
    onFailure: (error) => log.warn({ err: error }, 'counts of requests could not be written; trying again'),
  });

  return {
    note: ({ projectId, surface, status, ms }) => {
      const place = placeOf(ms);
      for (const seconds of spans) {
        const row = rowOf(projectId, surface, seconds);
        if (row === undefined) continue;
        row.counts[place] = (row.counts[place] ?? 0) + 1;
        if (status >= 500) row.counts[errorsAt] = (row.counts[errorsAt] ?? 0) + 1;
        row.isWritten = false;
      }
    },
    flush,
    stop: async () => {
      await poller.stop();
      await flush().catch((error: unknown) => log.warn({ err: error }, 'counts of requests were lost'));
    },
  };
};

/** The ranges that can be read, and of which rows. */
export const statRanges = {
  '1h': { hours: 1, seconds: 60 },
  '24h': { hours: 24, seconds: 3600 },
  '7d': { hours: 168, seconds: 3600 },
  '30d': { hours: 720, seconds: 3600 },
} as const satisfies Record<string, { readonly hours: number; readonly seconds: Span }>;
export type StatRange = keyof typeof statRanges;

/** The requests to one surface within one minute or hour. */
export interface StatPoint {
  readonly at: Date;
  readonly surface: Surface;
  readonly requests: number;
  readonly errors: number;
  /** The upper bound of the part in which it lies; null: slower than the last bound. */
  readonly p95_ms: number | null;
}

const p95Of = (parts: readonly number[], requests: number): number | null => {
  let seen = 0;
  const place = parts.findIndex((count) => (seen += count) >= requests * 0.95);
  return boundsMs[place] ?? null;
};

/** The requests of a project, the oldest first. Times without any are left out. */
export const readStats = async (db: Queryable, projectId: string, range: StatRange): Promise<StatPoint[]> => {
  const { hours, seconds } = statRanges[range];
  const rows = await db.query<{ at: Date; surface: Surface; counts: number[] }>(
    `select at, surface, array_agg(total order by place) as counts from (
       select s.at, s.surface, c.place, sum(c.count)::int as total
       from project_stats s, unnest(s.counts) with ordinality as c (count, place)
       where s.project_id = $1 and s.seconds = $2 and s.at > now() - make_interval(hours => $3)
       group by s.at, s.surface, c.place) summed
     group by at, surface order by at, surface`,
    [projectId, seconds, hours],
  );
  return rows.map(({ at, surface, counts }) => {
    const parts = counts.slice(0, errorsAt);
    const requests = parts.reduce((sum, count) => sum + count, 0);
    return { at, surface, requests, errors: counts[errorsAt] ?? 0, p95_ms: p95Of(parts, requests) };
  });
};

/** Minutes are kept for a day, hours for 31 days. */
export const sweepProjectStats = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from project_stats where (seconds = 60 and at < now() - interval '1 day')
       or (seconds = 3600 and at < now() - interval '31 days')`,
  );
};
