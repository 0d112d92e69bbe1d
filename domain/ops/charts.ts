import { cachedFor } from '#lib/cached-for.ts';
import type { Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';

/** The counts of one job type within one minute. */
interface MinuteOfType {
  readonly accepted: number;
  readonly finished: number;
  readonly succeeded: number;
  readonly failed: number;
  /** From acceptance to the first start, of what finished in this minute. Null when nothing did. */
  readonly p95WaitMs: number | null;
  readonly failures: ReadonlyMap<string, number>;
}

export interface Minute {
  /** Its beginning, ms since the epoch. */
  readonly at: number;
  readonly types: ReadonlyMap<string, MinuteOfType>;
}

export interface History {
  /** The last hour, oldest first. A minute that could not be counted in time has no types yet. */
  readonly minutes: () => Promise<readonly Minute[]>;
}

const minuteMs = 60_000;
const minutesShown = 60;
// The ends of jobs are recorded in batches, and clocks differ: a minute counts as over a while after it is.
const settleMs = 15_000;
// Minutes that are over are counted once, the newest first, for at most so long at a time: with 1,000 jobs a second an
// hour is 3,600,000 rows, a refresh is those of a minute or two.
const chunk = 10;
const budgetMs = 1500;
const freshMs = 5000;

interface AcceptedRow {
  readonly n: number;
  readonly type: string;
  readonly count: number;
}
interface FinishedRow extends Omit<MinuteOfType, 'accepted' | 'failures' | 'p95WaitMs'> {
  readonly n: number;
  readonly type: string;
  readonly p95: number | null;
}
interface FailureRow extends AcceptedRow {
  readonly code: string;
}

const acceptedIn = (db: Queryable, begins: readonly number[]): Promise<AcceptedRow[]> =>
  db.query<AcceptedRow>(
    `select m.n::int, j.type, j.count
     from unnest($1::uuid[], $2::uuid[]) with ordinality as m (lo, hi, n)
     cross join lateral (
       select type, count(*)::int as count from jobs where id >= m.lo and id < m.hi group by type
     ) j`,
    [begins.map(firstIdAt), begins.map((at) => firstIdAt(at + minuteMs))],
  );

const finishedIn = (db: Queryable, begins: readonly number[]): Promise<FinishedRow[]> =>
  db.query<FinishedRow>(
    `select m.n::int, j.* from unnest($1::timestamptz[]) with ordinality as m (at, n)
     cross join lateral (
       select type, count(*)::int as finished,
         count(*) filter (where status = 'succeeded')::int as succeeded,
         count(*) filter (where status in ('failed', 'dead'))::int as failed,
         percentile_cont(0.95) within group (order by extract(epoch from started_at - queued_at) * 1000) as p95
       from jobs
       where status in ('succeeded', 'failed', 'cancelled', 'expired', 'dead')
         and finished_at >= m.at and finished_at < m.at + interval '1 minute'
       group by type
     ) j`,
    [begins.map((at) => new Date(at))],
  );

const failuresIn = (db: Queryable, begins: readonly number[]): Promise<FailureRow[]> =>
  db.query<FailureRow>(
    `select m.n::int, j.* from unnest($1::timestamptz[]) with ordinality as m (at, n)
     cross join lateral (
       select type, coalesce(error_code, 'unknown') as code, count(*)::int as count from jobs
       where status in ('failed', 'dead') and finished_at >= m.at and finished_at < m.at + interval '1 minute'
       group by type, error_code
     ) j`,
    [begins.map((at) => new Date(at))],
  );

const none = { accepted: 0, finished: 0, succeeded: 0, failed: 0, p95WaitMs: null } as const;

const countMinutes = async (db: Queryable, begins: readonly number[]): Promise<Minute[]> => {
  const [accepted, finished, failures] = await Promise.all([
    acceptedIn(db, begins),
    finishedIn(db, begins),
    failuresIn(db, begins),
  ]);
  return begins.map((at, i) => {
    const types = new Map<string, MinuteOfType>();
    const add = (type: string, more: Partial<MinuteOfType>): void => {
      types.set(type, { failures: new Map(), ...none, ...types.get(type), ...more });
    };
    for (const { n, type, count } of accepted) if (n === i + 1) add(type, { accepted: count });
    for (const { n, type, p95, finished: all, succeeded, failed } of finished) {
      if (n === i + 1) add(type, { finished: all, succeeded, failed, p95WaitMs: p95 });
    }
    for (const { n, type, code, count } of failures) {
      if (n !== i + 1) continue;
      add(type, { failures: new Map([...(types.get(type)?.failures ?? []), [code, count]]) });
    }
    return { at, types };
  });
};

/** The last hour by minutes, counted from the rows: nothing is kept besides, and any process answers the same. */
export const createHistory = (db: Queryable): History => {
  const settled = new Map<number, Minute>();

  const keep = (minutes: readonly Minute[], now: number): void => {
    for (const minute of minutes) if (minute.at + minuteMs + settleMs <= now) settled.set(minute.at, minute);
    for (const at of settled.keys()) if (at < now - (minutesShown + 1) * minuteMs) settled.delete(at);
  };

  const count = async (): Promise<Minute[]> => {
    const began = performance.now();
    const now = Date.now();
    const newest = Math.floor(now / minuteMs) * minuteMs;
    const hour = Array.from({ length: minutesShown }, (_, i) => newest - (minutesShown - 1 - i) * minuteMs);
    const missing = hour.filter((at) => !settled.has(at)).toReversed();
    const counted = new Map<number, Minute>();
    for (let i = 0; i < missing.length && performance.now() - began < budgetMs; i += chunk) {
      const minutes = await countMinutes(db, missing.slice(i, i + chunk));
      for (const minute of minutes) counted.set(minute.at, minute);
      keep(minutes, now);
    }
    return hour.map((at) => settled.get(at) ?? counted.get(at) ?? { at, types: new Map() });
  };

  return { minutes: cachedFor(freshMs, count) };
};
