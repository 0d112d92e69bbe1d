import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { ControlDb, Queryable, Tx } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import { byIndex } from './store.ts';

/** A success within this time is quick. A failure after it counts twice, since the attempt held a slot for long. */
export const quickMs = 2000;

/**
 * How many slow webhooks of all projects together may have an attempt under way unless a caller says otherwise: half of
 * the slots that a worker has by default, so that the others find room wherever they run.
 */
const defaultSlowAtOnce = 256;

/** The slow scope of webhooks that wait because too many of all projects are slow; otherwise it is their project. */
const allProjects = '00000000-0000-0000-0000-000000000000';

const { free, pro, enterprise } = webhookDeliver.running;

/**
 * How many attempts a project may have running. @param project alias of its row @param limits alias of its `job_limits`
 */
const maxRunning = (project: string, limits: string): string => `coalesce(${limits}.running, case ${project}.plan
  when 'free' then ${free} when 'pro' then ${pro} else ${enterprise} end)`;

/** How many slow webhooks of a project may have an attempt under way, each one. */
const slowShare = (project: string, limits: string): string => `greatest(2, ${maxRunning(project, limits)} / 4)`;

/** Counts the slow webhooks beside those of `$1` that do not wait. @param scope condition on the row `o` */
const countBusy = (scope: string): string => `(select count(*) from webhook_throttles o
  where ${scope} and o.waits_since is null and o.webhook_id <> all ($1::uuid[]))`;

/**
 * Finds slow webhooks that wait for others of their project, or of all projects: as many as there is room for if these
 * webhooks have just made it.
 */
const heldBackBeside = async (
  db: Queryable,
  webhookIds: readonly string[],
  slowAtOnce = defaultSlowAtOnce,
): Promise<string[]> => {
  const rows = await db.query<{ webhook_id: string }>(
    `with own as (
       select distinct w.project_id as id from webhooks w
       where w.id = any ($1::uuid[]) and exists (
         select from webhook_throttles t where t.slow_scope = w.project_id and t.waits_since is not null)
     )
     select beside.webhook_id
     from own join projects p on p.id = own.id
       left join job_limits j on j.project_id = p.id and j.type = '${webhookDeliver.type}'
       cross join lateral (
         select t.webhook_id from webhook_throttles t
         where t.slow_scope = p.id and t.waits_since is not null and t.webhook_id <> all ($1::uuid[])
         order by t.waits_since
         limit greatest(0, ${slowShare('p', 'j')} - ${countBusy('o.slow_scope = p.id')})) as beside
     union
     select elsewhere.webhook_id
     from (select where exists (select from webhook_throttles where slow_scope = '${allProjects}')) as any_waits
       cross join lateral (
         select t.webhook_id from webhook_throttles t
         where t.slow_scope = '${allProjects}' and t.waits_since is not null and t.webhook_id <> all ($1::uuid[])
         order by t.waits_since limit greatest(0, $2::int - ${countBusy('o.slow_scope is not null')})) as elsewhere`,
    [webhookIds, slowAtOnce],
    'held-back-beside',
  );
  return rows.map((row) => row.webhook_id);
};

/** A throttle that this transaction holds. */
interface LockedThrottle {
  readonly webhook_id: string;
  /** Waiting deliveries of an inactive webhook are skipped. */
  readonly is_active: boolean;
}

/**
 * Locks throttles, except those that another transaction holds, so that a long transaction delays nobody else. Its
 * holder claims deliveries and never waits for one that others hold.
 * @returns `lockedElsewhereIds`: webhooks whose throttles another transaction holds
 */
export const lockThrottles = async (
  tx: Tx,
  webhookIds: readonly string[],
): Promise<{ readonly throttles: LockedThrottle[]; readonly lockedElsewhereIds: string[] }> => {
  const rows = await tx.query<LockedThrottle & { is_locked_elsewhere: boolean }>(
    `with locked as materialized (
       select t.webhook_id, w.is_active and w.deleted_at is null as is_active
       from webhook_throttles t join webhooks w on w.id = t.webhook_id
       where t.webhook_id = any ($1::uuid[]) order by t.webhook_id for update of t skip locked
     )
     select webhook_id, is_active, false as is_locked_elsewhere from locked
     union all
     select webhook_id, false, true from webhook_throttles
     where webhook_id = any ($1::uuid[]) and webhook_id not in (select webhook_id from locked)`,
    [webhookIds],
    'lock-throttles',
  );
  return {
    throttles: rows.filter((row) => !row.is_locked_elsewhere),
    lockedElsewhereIds: rows.filter((row) => row.is_locked_elsewhere).map((row) => row.webhook_id),
  };
};

const lockDueThrottles = (tx: Tx, max: number): Promise<LockedThrottle[]> =>
  tx.query<LockedThrottle>(
    `select t.webhook_id, w.is_active and w.deleted_at is null as is_active
     from webhook_throttles t join webhooks w on w.id = t.webhook_id
     where t.webhook_id in (select webhook_id from webhook_throttles where next_at <= now() order by next_at limit $1)
       and t.next_at <= now()
     order by t.webhook_id for update of t skip locked`,
    [max],
    'lock-due-throttles',
  );

/**
 * Finds those to schedule among webhooks whose attempts have ended: something of theirs waits, or they may have made
 * room for other slow webhooks. Whoever adds a delivery meanwhile wakes its throttle.
 */
export const webhooksWithWork = async (db: Queryable, webhookIds: readonly string[]): Promise<string[]> => {
  const rows = await db.query<{ id: string }>(
    'select id from webhooks_with_work($1) as id',
    [webhookIds],
    'webhooks-with-work',
  );
  return rows.map((row) => row.id);
};

/**
 * The token bucket of a rate holds a fifth of a second, at least one attempt: a burst after silence is that much
 * larger.
 */
const bucketsPerSecond = 5;

// The state of the throttles $1. A quick webhook may use a quarter of its project's running attempts, so that one that
// hangs leaves room for the others; a slow one has one attempt at a time. All slow webhooks of a project share another
// quarter, since a thousand that hang must not hold what others wait for.
const stateSql = `
  select t.webhook_id, w.project_id, p.status = 'active' and p.deleted_at is null as is_open,
    case when t.is_quick then greatest(1, ${maxRunning('p', 'j')} / 4) else 1 end as quarter,
    ${slowShare('p', 'j')} as share, t.is_quick, t.waits_since,
    (select count(*) from webhook_deliveries d where d.webhook_id = t.webhook_id and d.job_id is not null) as under_way,
    least(greatest(1, w.rate_per_second / ${bucketsPerSecond}::float8), t.tokens + w.rate_per_second
      * greatest(0, extract(epoch from clock_timestamp() - t.tokens_at)::float8)) as tokens,
    w.rate_per_second as rate, coalesce(greatest(t.closed_until, t.retry_after) > now(), false) as is_closed
  from unnest($1::uuid[]) as requested (id) join webhook_throttles t on t.webhook_id = requested.id
    join webhooks w on w.id = t.webhook_id join projects p on p.id = w.project_id
    left join job_limits j on j.project_id = w.project_id and j.type = '${webhookDeliver.type}'
  where w.is_active and w.deleted_at is null`;

// `placed` gives each slow webhook with work its place among those of its project: those with an attempt under way
// first, then by waiting time. `slow` allows an attempt while there are at most $2 of all projects. Two concurrent
// transactions may give one place twice.
const claimSql = `
  with state as materialized (${stateSql}
  ), busy as (
    select project_id, ${countBusy('o.slow_scope = slow_projects.project_id')} as webhooks
    from (select distinct project_id from state where not is_quick) as slow_projects
  ), placed as (
    select s.webhook_id, s.project_id, s.share, s.under_way, s.waits_since, busy.webhooks + row_number() over (
        partition by s.project_id order by s.under_way > 0 desc, s.waits_since nulls last, s.webhook_id) as place
    from state s join busy on busy.project_id = s.project_id
    where not s.is_quick and (s.under_way > 0 or s.is_open and not s.is_closed and s.tokens >= 1 and exists (
      select from webhook_deliveries d
      where d.webhook_id = s.webhook_id and d.next_attempt_at <= now() and d.job_id is null))
  ), slow as materialized (
    select placed.*, under_way > 0 or place <= share and everybody.busy + count(*) filter (where place <= share) over (
        order by under_way > 0 desc, waits_since nulls last, webhook_id) <= $2::int as is_allowed
    from placed cross join lateral (select ${countBusy('o.slow_scope is not null')} as busy) as everybody
  ), picked as materialized (
    select d.id, s.project_id, uuid_v7() as job_id, s.webhook_id
    from state s left join slow on slow.webhook_id = s.webhook_id cross join lateral (
      select id from webhook_deliveries
      where webhook_id = s.webhook_id and next_attempt_at <= now() and job_id is null
      order by next_attempt_at
      limit case when s.is_open and not s.is_closed and (s.is_quick or slow.is_allowed)
        then greatest(0, least(s.quarter - s.under_way, floor(s.tokens)))::int else 0 end
      for update skip locked) d
  ), claimed as (
    update webhook_deliveries d set job_id = p.job_id from picked p where d.id = p.id
  )
  select id, job_id, project_id, webhook_id, false as is_crowded_out from picked
  union all
  select null, null, project_id, webhook_id, place <= share from slow where not is_allowed`;

interface ClaimRow {
  /** Null: the webhook waits for other slow ones. */
  readonly id: string | null;
  readonly job_id: string;
  readonly project_id: string;
  readonly webhook_id: string;
  /** These are of other projects. */
  readonly is_crowded_out: boolean;
}

/** Deliveries that begin now. */
interface ClaimedDeliveries {
  /** Yet to be inserted. */
  readonly jobs: readonly NewJobRow[];
  /** How many each webhook has. */
  readonly counts: ReadonlyMap<string, number>;
  /** Webhooks that wait for other slow ones. */
  readonly heldBack: readonly string[];
  /** The ones among them that wait for slow webhooks of other projects. */
  readonly crowdedOut: readonly string[];
}

const jobOf = ({ id, job_id: jobId, project_id: projectId, webhook_id: webhookId }: ClaimRow): NewJobRow => ({
  id: jobId,
  projectId,
  startedBy: { kind: 'event', id: webhookId },
  type: webhookDeliver.type,
  data: `{"delivery_id":"${id}"}`,
  maxAttempts: webhookDeliver.maxAttempts,
  requestId: `webhook-${id}`,
});

/**
 * Gives a job's id to each due delivery for which its webhook has room. The throttles must be locked.
 * @param slowAtOnce how many slow webhooks of all projects may have an attempt under way
 */
export const claimDeliveries = async (
  tx: Tx,
  webhookIds: readonly string[],
  slowAtOnce = defaultSlowAtOnce,
): Promise<ClaimedDeliveries> => {
  const rows = await tx.query<ClaimRow>(claimSql, [webhookIds, slowAtOnce], 'claim-deliveries');
  const claimed = rows.filter((row) => row.id !== null);
  const heldBack = rows.filter((row) => row.id === null);
  const counts = new Map(webhookIds.map((id) => [id, 0]));
  for (const { webhook_id: id } of claimed) counts.set(id, (counts.get(id) ?? 0) + 1);
  return {
    jobs: claimed.map(jobOf),
    counts,
    heldBack: heldBack.map((row) => row.webhook_id),
    crowdedOut: heldBack.filter((row) => row.is_crowded_out).map((row) => row.webhook_id),
  };
};

/**
 * When a throttle is due again although something else should wake it, in seconds: the end of an attempt (`full`), or
 * of others' (`heldBack`), in case the process that saw it died; the project (`paused`). Thousands may be crowded out,
 * and each batch looks whether there is room for one of them, so theirs is the longest.
 */
const recheckSeconds = { full: 5, paused: 30, heldBack: 15, crowdedOut: 60 } as const;

// With an empty bucket the throttle is due when a tenth of a second's tokens are there, not at each single one.
const scheduleSql = `
  with state as materialized (${stateSql}
  ), waiting as (
    select s.webhook_id, s.project_id, s.is_open, s.is_quick, s.quarter, s.under_way, s.rate,
      s.webhook_id = any ($3::uuid[]) as is_held_back, s.webhook_id = any ($4::uuid[]) as is_crowded_out,
      s.tokens - ($2::int[])[array_position($1::uuid[], s.webhook_id)] as tokens,
      (select next_attempt_at from webhook_deliveries d
       where d.webhook_id = s.webhook_id and d.next_attempt_at is not null and d.job_id is null
       order by d.next_attempt_at limit 1) as first_at
    from state s
  )
  update webhook_throttles t set tokens = w.tokens, tokens_at = clock_timestamp(),
    slow_scope = case when is_crowded_out then '${allProjects}'
      when is_held_back or not w.is_quick and under_way > 0 then w.project_id end,
    waits_since = case when is_held_back then coalesce(t.waits_since, now()) end,
    next_at = case
      when first_at is null then null
      when not is_open then now() + make_interval(secs => ${recheckSeconds.paused})
      when quarter <= under_way then now() + make_interval(secs => ${recheckSeconds.full})
      when is_crowded_out then now() + make_interval(secs => ${recheckSeconds.crowdedOut})
      when is_held_back then now() + make_interval(secs => ${recheckSeconds.heldBack})
      else greatest(first_at, t.closed_until, t.retry_after, case when w.tokens < 1
        then now() + make_interval(secs => (greatest(1, w.rate / 10) - w.tokens) / w.rate) end) end
  from waiting w where t.webhook_id = w.webhook_id
  returning extract(epoch from t.next_at - clock_timestamp())::float8 * 1000 as in_ms`;

/**
 * Records what throttles have used of their rate, and when each is due next. The throttles must be locked.
 * @returns milliseconds until the first is due; null when none is
 */
export const scheduleThrottles = async (
  tx: Tx,
  { counts, heldBack, crowdedOut }: ClaimedDeliveries,
): Promise<number | null> => {
  const values = [[...counts.keys()], [...counts.values()], heldBack, crowdedOut];
  const rows = await tx.query<{ in_ms: number | null }>(scheduleSql, values, 'schedule-throttles');
  const times = rows.map((row) => row.in_ms).filter((inMs) => inMs !== null);
  return times.length === 0 ? null : Math.max(0, Math.min(...times));
};

/**
 * Skips waiting deliveries of inactive webhooks whose throttles are locked. @returns how many; fewer than `max`: all
 */
const skipWaiting = async (tx: Tx, webhookIds: readonly string[], max: number): Promise<number> => {
  const skipped = await tx.query<{ id: string }>(
    `update webhook_deliveries set status = 'skipped', next_attempt_at = null, finished_at = now()
     where id in (
       select id from webhook_deliveries where webhook_id = any ($1::uuid[]) and next_attempt_at is not null
         and job_id is null limit $2 for update skip locked)
     returning id`,
    [webhookIds, max],
    'skip-waiting',
  );
  await tx.query(
    `update webhook_throttles set next_at = case when $2 then now() end, slow_scope = null, waits_since = null
     where webhook_id = any ($1::uuid[])`,
    [webhookIds, skipped.length >= max],
    'schedule-inactive-throttles',
  );
  return skipped.length;
};

/**
 * Makes throttles due now, without waiting for those that another transaction holds.
 * @returns the webhooks of those, to be woken later
 */
export const wakeUnlockedThrottles = async (db: Queryable, webhookIds: readonly string[]): Promise<string[]> => {
  const lockedElsewhere = await db.query<{ webhook_id: string }>(
    `with locked as materialized (
       select webhook_id from webhook_throttles where webhook_id = any ($1::uuid[]) order by webhook_id
       for update skip locked
     ), woken as (
       update webhook_throttles t set next_at = least(t.next_at, now()) from locked
       where t.webhook_id = locked.webhook_id
     )
     select webhook_id from webhook_throttles
     where webhook_id = any ($1::uuid[]) and webhook_id not in (select webhook_id from locked)`,
    [webhookIds],
    'wake-free-throttles',
  );
  return lockedElsewhere.map((throttle) => throttle.webhook_id);
};

export interface PumpDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many slow webhooks of all projects may have an attempt under way; 256 unless given. */
  readonly slowAtOnce?: number;
}

interface Pumped {
  /** Inserted; to be admitted after the commit. */
  readonly jobs: readonly NewJobRow[];
  /** Milliseconds until the first of the throttles is due again; null: none is. */
  readonly nextInMs: number | null;
  readonly throttles: number;
}

export interface BatchResult {
  /** Milliseconds until the first of the throttles is due again; null: none is. */
  readonly nextInMs: number | null;
  /** Webhooks whose throttles another transaction held, so that nothing was scheduled. */
  readonly lockedElsewhereIds: readonly string[];
}

const maxThrottles = 500;
const maxSkipped = 2000;

const idsOf = (throttles: readonly LockedThrottle[]): string[] => throttles.map((throttle) => throttle.webhook_id);

/** Turns due deliveries of locked throttles into jobs. */
const runLockedBatch = async (tx: Tx, throttles: readonly LockedThrottle[], slowAtOnce?: number): Promise<Pumped> => {
  const active = idsOf(throttles.filter((throttle) => throttle.is_active));
  const inactive = idsOf(throttles.filter((throttle) => !throttle.is_active));
  const skipped = inactive.length > 0 ? await skipWaiting(tx, inactive, maxSkipped) : 0;
  const more = skipped >= maxSkipped ? 0 : null;
  if (active.length === 0) return { jobs: [], nextInMs: more, throttles: throttles.length };
  const claimed = await claimDeliveries(tx, active, slowAtOnce);
  if (claimed.jobs.length > 0) await insertJobs(tx, claimed.jobs);
  const next = await scheduleThrottles(tx, claimed);
  return { jobs: claimed.jobs, nextInMs: more ?? next, throttles: throttles.length };
};

/** Never fails: the reconciler brings to the gate within seconds what it does not take now. */
const admitAll = async ({ gate, log }: PumpDeps, jobs: readonly NewJobRow[]): Promise<void> => {
  const admit = async ({ id, type, projectId }: NewJobRow): Promise<void> => {
    noteAccepted(type);
    await gate.admit({ id, type, projectId }, false);
  };
  const results = await Promise.allSettled(jobs.map(admit));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure) log.warn({ err: failure.reason as unknown }, 'deliveries wait for the reconciler');
};

const soonest = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

/** Runs a batch for throttles and, since an attempt that ended may have made room, for those held back beside them. */
const pumpLocked = async (deps: PumpDeps, lock: (tx: Tx) => Promise<LockedThrottle[]>): Promise<Pumped> => {
  const { db, slowAtOnce } = deps;
  const pumped = await db.transaction(async (tx) => {
    const throttles = await lock(tx);
    const besideIds = throttles.length === 0 ? [] : await heldBackBeside(tx, idsOf(throttles), slowAtOnce);
    const beside = besideIds.length === 0 ? [] : (await lockThrottles(tx, besideIds)).throttles;
    return { ...(await runLockedBatch(tx, [...throttles, ...beside], slowAtOnce)), throttles: throttles.length };
  }, byIndex);
  await admitAll(deps, pumped.jobs);
  return pumped;
};

/**
 * Begins the due deliveries of these webhooks. Called after the commit of what gave them work: new deliveries, or a
 * webhook that became active or inactive. If it fails, a worker's poll does it within a second.
 */
export const runBatch = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<BatchResult> => {
  let nextInMs: number | null = null;
  const lockedElsewhereIds: string[] = [];
  for (let i = 0; i < webhookIds.length; i += maxThrottles) {
    const pumped = await pumpLocked(deps, async (tx) => {
      const locked = await lockThrottles(tx, webhookIds.slice(i, i + maxThrottles));
      lockedElsewhereIds.push(...locked.lockedElsewhereIds);
      return locked.throttles;
    });
    nextInMs = soonest(nextInMs, pumped.nextInMs);
  }
  return { nextInMs, lockedElsewhereIds };
};

/** As `runBatch`, for requests: the throttles are made due first, so that a poll finds what this does not get done. */
export const pump = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<void> => {
  try {
    await deps.db.query(
      `update webhook_throttles t set next_at = least(t.next_at, now()) from (
         select webhook_id from webhook_throttles where webhook_id = any ($1::uuid[])
         order by webhook_id for update) as locked
       where t.webhook_id = locked.webhook_id`,
      [webhookIds],
      'wake-throttles',
    );
    await runBatch(deps, webhookIds);
  } catch (error) {
    deps.log.warn({ err: error }, 'due deliveries wait for the next poll of their webhooks');
  }
};

/**
 * Runs batches for throttles that are due, whoever left them so.
 * @returns milliseconds until the next one is due; null: none is
 */
export const pumpDue = async (deps: PumpDeps): Promise<number | null> => {
  // Mostly none is due: then this is one statement without a transaction.
  const due = 'select from webhook_throttles where next_at <= now() limit 1';
  if ((await deps.db.query(due, [], 'is-throttle-due')).length === 0) return null;
  let next: number | null = null;
  let throttles: number;
  do {
    const pumped = await pumpLocked(deps, (tx) => lockDueThrottles(tx, maxThrottles));
    next = soonest(next, pumped.nextInMs);
    throttles = pumped.throttles;
  } while (throttles === maxThrottles);
  return next;
};
