import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { startPoller } from '#lib/poller.ts';
import type { Outcome } from './compile.ts';
import type { FlagSet } from './flag-sets.ts';
import { type StaleReason, staleReasonOf } from './store.ts';

/** How often flags are evaluated, with which results: counted in memory and written once a minute. */

export interface FlagUsage {
  readonly note: (set: FlagSet, outcome: Outcome) => void;
  readonly noteAll: (set: FlagSet, outcomes: readonly Outcome[]) => void;
  /** Writes what was counted. */
  readonly flush: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const flushMs = 60_000;
/**
 * Results that are counted at a time, of one project and of all; further ones are left out until the next minute. The
 * first ones of a project are counted even when others have taken what there is for all.
 */
const maxOfProject = 50_000;
const maxCounted = 200_000;
const maxBeyond = 1000;
const batch = 1000;
/** Longer values are in the flag itself. */
const maxValueLength = 200;

interface StatRow {
  readonly environmentId: string;
  readonly key: string;
  readonly variant: string;
  readonly value: string | null;
  count: number;
}

/** Results of an environment, with how often they were answered. */
interface Counted {
  readonly outcomes: Map<Outcome, number>;
  /** The results of all environments of the project. */
  readonly project: { size: number };
}

const variantOf = ({ variant, reason }: Outcome): string => variant ?? reason.toLowerCase();

/** Whether a value can have a short text at all: one that has a megabyte would be written for each of 1,000 rules. */
const isShort = (value: unknown): boolean => {
  const waiting: unknown[] = [value];
  for (let looked = 0; waiting.length > 0; looked += 1) {
    const next = waiting.pop();
    if (looked > maxValueLength || (typeof next === 'string' && next.length > maxValueLength)) return false;
    if (typeof next !== 'object' || next === null) continue;
    if (Array.isArray(next) && next.length > maxValueLength) return false;
    for (const name in next) {
      if (waiting.length > maxValueLength) return false;
      waiting.push((next as Record<string, unknown>)[name]);
    }
  }
  return true;
};

const shortText = (value: unknown): string | null => {
  const text = isShort(value) ? JSON.stringify(value) : null;
  return text !== null && text.length <= maxValueLength ? text : null;
};

const shortTexts = new WeakMap<object, string | null>();

const valueOf = ({ value = null }: Outcome): string | null => {
  if (typeof value !== 'object' || value === null) return shortText(value);
  const known = shortTexts.get(value);
  if (known !== undefined) return known;
  const text = shortText(value);
  shortTexts.set(value, text);
  return text;
};

interface Count {
  readonly environmentId: string;
  readonly outcome: Outcome;
  readonly count: number;
}

/** A result of before a change and the same of after it are one row. */
const rowsOf = (counts: readonly Count[]): StatRow[] => {
  const rows = new Map<string, StatRow>();
  for (const { environmentId, outcome, count } of counts) {
    const { key } = outcome;
    const variant = variantOf(outcome);
    const name = `${environmentId} ${key} ${variant}`;
    const row = rows.get(name);
    if (row === undefined) rows.set(name, { environmentId, key, variant, value: valueOf(outcome), count });
    else row.count += count;
  }
  // In one order, so that processes wait for each other and not in a circle.
  return [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
};

/** The rows of one statement after the other, made when they are to be written: all at once held up the event loop. */
const batchesOf = function* (counts: ReadonlyMap<string, Counted>): Generator<StatRow[]> {
  let some: Count[] = [];
  for (const [environmentId, { outcomes }] of counts)
    for (const [outcome, count] of outcomes) {
      some.push({ environmentId, outcome, count });
      if (some.length < batch) continue;
      yield rowsOf(some);
      some = [];
    }
  if (some.length > 0) yield rowsOf(some);
};

/** Flags that were deleted meanwhile are left out. */
const write = async (db: Queryable, rows: readonly StatRow[]): Promise<void> => {
  await db.query(
    `insert into flag_stats (environment_id, key, date, variant, value, count, last_at)
     select new.environment_id, new.key, (now() at time zone 'utc')::date, new.variant, new.value, new.count, now()
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[])
       as new (environment_id, key, variant, value, count)
     join flags f on f.environment_id = new.environment_id and f.key = new.key
     on conflict (environment_id, key, date, variant) do update set count = flag_stats.count + excluded.count,
       value = excluded.value, last_at = excluded.last_at`,
    [
      rows.map(({ environmentId }) => environmentId),
      rows.map(({ key }) => key),
      rows.map(({ variant }) => variant),
      rows.map(({ value }) => value),
      rows.map(({ count }) => count),
    ],
    'flag-stats',
  );
};

export const createFlagUsage = ({ db, log }: { readonly db: Queryable; readonly log: Log }): FlagUsage => {
  let counts = new Map<string, Counted>();
  let projects = new Map<string, Counted['project']>();
  let size = 0;
  /** Counts that PostgreSQL has not taken, and the rows of them that are next. */
  let unwritten: Iterator<StatRow[]> | null = null;
  let next: StatRow[] | null = null;

  const countedOf = (projectId: string, environmentId: string): Counted => {
    const project = projects.get(projectId) ?? { size: 0 };
    projects.set(projectId, project);
    const present = counts.get(environmentId) ?? { outcomes: new Map<Outcome, number>(), project };
    counts.set(environmentId, present);
    return present;
  };
  const isFull = (project: Counted['project']): boolean =>
    project.size >= maxOfProject || (size >= maxCounted && project.size >= maxBeyond);
  const count = ({ outcomes, project }: Counted, outcome: Outcome): void => {
    const before = outcomes.get(outcome);
    if (before === undefined) {
      if (isFull(project)) return;
      size += 1;
      project.size += 1;
    }
    outcomes.set(outcome, (before ?? 0) + 1);
  };
  const noteAll: FlagUsage['noteAll'] = ({ projectId, environmentId }, outcomes) => {
    if (environmentId === null) return;
    const counted = countedOf(projectId, environmentId);
    for (const outcome of outcomes) count(counted, outcome);
  };

  const take = (): Iterator<StatRow[]> => {
    const taken = counts;
    [counts, projects, size] = [new Map(), new Map(), 0];
    return batchesOf(taken);
  };
  const flush = async (): Promise<void> => {
    unwritten ??= take();
    for (;;) {
      next ??= unwritten.next().value ?? null;
      if (next === null) break;
      await write(db, next);
      next = null;
      await nextTurn();
    }
    unwritten = null;
  };
  const poller = startPoller(flush, {
    everyMs: flushMs,
    firstInMs: flushMs,
    onFailure: (error) => log.warn({ err: error }, 'counts of evaluated flags could not be written; trying again'),
  });

  return {
    note: (set, outcome) => noteAll(set, [outcome]),
    noteAll,
    flush,
    stop: async () => {
      await poller.stop();
      await flush().catch((error: unknown) => log.warn({ err: error }, 'counts of evaluated flags were lost'));
    },
  };
};

export interface FlagStats {
  readonly days: { readonly date: string; readonly variant: string; readonly value: unknown; readonly count: number }[];
  readonly last_evaluated_at: Date | null;
  readonly stale: boolean;
  readonly stale_reason: StaleReason | null;
}

export const statsOf = async (
  db: Queryable,
  flag: { readonly id: string; readonly environment_id: string; readonly key: string },
  days: number,
): Promise<FlagStats> => {
  const rows = await db.query<{ date: string; variant: string; value: string | null; count: number; last_at: Date }>(
    `select date::text as date, variant, value, count, last_at from flag_stats
     where environment_id = $1 and key = $2 order by date desc, variant`,
    [flag.environment_id, flag.key],
  );
  const reason = await staleReasonOf(db, flag.id);
  const since = new Date(Date.now() - days * 24 * 3600_000).toISOString().slice(0, 10);
  const latest = Math.max(0, ...rows.map(({ last_at: at }) => at.getTime()));
  return {
    days: rows
      .filter(({ date }) => date > since)
      .map(({ date, variant, value, count }) => ({
        date,
        variant,
        count,
        value: value === null ? null : (JSON.parse(value) as unknown),
      })),
    last_evaluated_at: latest === 0 ? null : new Date(latest),
    stale: reason !== null,
    stale_reason: reason,
  };
};

export const maxStatDays = 90;

/** Deletes counts of long ago. */
export const sweepFlagStats = async (db: Queryable): Promise<void> => {
  await db.query(`delete from flag_stats where date < (now() at time zone 'utc')::date - ${maxStatDays + 1}`);
};
