import type { NewJobRow } from '#domain/jobs/store.ts';
import type { Queryable, Tx } from '#lib/control-db.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import { allProjects, runningSql, shareSql, slowSql, usualSlowAtOnce } from './slow.ts';

/** A throttle that this transaction holds. */
export interface LockedThrottle {
  readonly webhook_id: string;
  /** Whether its webhook is active; what waits for one that is not is skipped. */
  readonly is_active: boolean;
}

const lockColumns = `l.webhook_id, w.is_active and w.deleted_at is null as is_active
  from webhook_throttles l join webhooks w on w.id = l.webhook_id`;

/**
 * Locks throttles, but not those that somebody else holds: one that is held long holds up no other. Whoever holds one gives
 * turns, and waits for no delivery that others hold.
 * @returns `lockedElsewhereIds`: webhooks whose throttles somebody else holds
 */
export const lockThrottles = async (
  tx: Tx,
  webhookIds: readonly string[],
): Promise<{ readonly throttles: LockedThrottle[]; readonly lockedElsewhereIds: string[] }> => {
  const rows = await tx.query<LockedThrottle & { is_locked_elsewhere: boolean }>(
    `with locked as materialized (
       select ${lockColumns} where l.webhook_id = any ($1::uuid[]) order by l.webhook_id for update of l skip locked
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
    lockedElsewhereIds: rows.flatMap((row) => (row.is_locked_elsewhere ? [row.webhook_id] : [])),
  };
};

/** Locks throttles whose time has come, the longest due first; those that somebody else holds are left to them. */
export const lockDueThrottles = (tx: Tx, max: number): Promise<LockedThrottle[]> =>
  tx.query<LockedThrottle>(
    `select ${lockColumns}
     where l.webhook_id in (select webhook_id from webhook_throttles where next_at <= now() order by next_at limit $1)
       and l.next_at <= now()
     order by l.webhook_id for update of l skip locked`,
    [max],
    'lock-due-throttles',
  );

/** Whether the time of any throttle has come. */
export const isThrottleDue = async (db: Queryable): Promise<boolean> =>
  (await db.query('select from webhook_throttles where next_at <= now() limit 1', [], 'is-throttle-due')).length > 0;

/**
 * Of these webhooks, of which tries have ended, those that have to be looked at: something of theirs waits, or they may have
 * made room for others that are not quick. What is added meanwhile, whoever adds it wakes.
 */
export const webhooksWithWork = async (db: Queryable, webhookIds: readonly string[]): Promise<string[]> => {
  const rows = await db.query<{ id: string }>(
    'select id from webhooks_with_work($1) as id',
    [webhookIds],
    'webhooks-with-work',
  );
  return rows.map((row) => row.id);
};

/** A rate's bucket holds what comes in a fifth of a second, one try at least: after a silence a second has so many more. */
const bucketsPerSecond = 5;

// A webhook has a quarter of what its project may have running, so that one that hangs leaves room for the others; one,
// unless its last try was a quick success. All of a project that are not quick have a quarter between them: a thousand that
// hang must not hold what others wait for. Its rate is a bucket.
const stateSql = `
  select l.webhook_id, w.project_id, p.status = 'active' and p.deleted_at is null as is_open,
    case when l.is_quick then greatest(1, ${runningSql} / 4) else 1 end as quarter,
    ${shareSql} as share, l.is_quick, l.waits_since,
    (select count(*) from webhook_deliveries d where d.webhook_id = l.webhook_id and d.job_id is not null) as under_way,
    least(greatest(1, w.rate_per_second / ${bucketsPerSecond}::float8), l.tokens + w.rate_per_second
      * greatest(0, extract(epoch from clock_timestamp() - l.tokens_at)::float8)) as tokens,
    w.rate_per_second as rate, coalesce(greatest(l.closed_until, l.retry_after) > now(), false) as is_closed
  from unnest($1::uuid[]) as looked (id) join webhook_throttles l on l.webhook_id = looked.id
    join webhooks w on w.id = l.webhook_id join projects p on p.id = w.project_id
    left join job_limits j on j.project_id = w.project_id and j.type = '${webhookDeliver.type}'
  where w.is_active and w.deleted_at is null`;

const takeSql = `
  with state as materialized (${stateSql}), slow as materialized (${slowSql}), picked as materialized (
    select d.id, s.project_id, uuid_v7() as job_id, s.webhook_id
    from state s left join slow on slow.webhook_id = s.webhook_id cross join lateral (
      select id from webhook_deliveries
      where webhook_id = s.webhook_id and next_attempt_at <= now() and job_id is null
      order by next_attempt_at
      limit case when s.is_open and not s.is_closed and (s.is_quick or slow.is_let)
        then greatest(0, least(s.quarter - s.under_way, floor(s.tokens)))::int else 0 end
      for update skip locked) d
  ), given as (
    update webhook_deliveries d set job_id = p.job_id from picked p where d.id = p.id
  )
  select id, job_id, project_id, webhook_id, false as is_crowded_out from picked
  union all
  select null, null, project_id, webhook_id, place <= share from slow where not is_let`;

interface Taken {
  /** Null: its webhook waits for others that are not quick. */
  readonly id: string | null;
  readonly job_id: string;
  readonly project_id: string;
  readonly webhook_id: string;
  /** Those are of other projects. */
  readonly is_crowded_out: boolean;
}

/** Deliveries whose turn it is. */
export interface ClaimedDeliveries {
  /** Yet to be inserted. */
  readonly jobs: readonly NewJobRow[];
  /** How many each webhook has. */
  readonly counts: ReadonlyMap<string, number>;
  /** Webhooks that wait for others that are not quick. */
  readonly heldBack: readonly string[];
  /** Of these the ones that wait for those of other projects. */
  readonly crowdedOut: readonly string[];
}

const jobOf = ({
  id,
  job_id: jobId,
  project_id: projectId,
  webhook_id: webhookId,
}: Taken & { readonly id: string }): NewJobRow => ({
  id: jobId,
  projectId,
  startedBy: { kind: 'event', id: webhookId },
  type: webhookDeliver.type,
  data: `{"delivery_id":"${id}"}`,
  maxAttempts: webhookDeliver.maxAttempts,
  requestId: `webhook-${id}`,
});

/**
 * Gives a job's id to each delivery whose turn it is, as far as its webhook has room. The throttles must be locked.
 * @param slowAtOnce how many webhooks that are not quick may have a try under way, of all projects
 */
export const claimDeliveries = async (
  tx: Tx,
  webhookIds: readonly string[],
  slowAtOnce = usualSlowAtOnce,
): Promise<ClaimedDeliveries> => {
  const rows = await tx.query<Taken>(takeSql, [webhookIds, slowAtOnce], 'claim-deliveries');
  const taken = rows.filter((row) => row.id !== null) as (Taken & { readonly id: string })[];
  const counts = new Map(webhookIds.map((id) => [id, 0]));
  for (const { webhook_id: id } of taken) counts.set(id, (counts.get(id) ?? 0) + 1);
  const heldBack = rows.filter((row) => row.id === null);
  return {
    jobs: taken.map(jobOf),
    counts,
    heldBack: heldBack.map((row) => row.webhook_id),
    crowdedOut: heldBack.filter((row) => row.is_crowded_out).map((row) => row.webhook_id),
  };
};

/** Whoever ends a try looks at its throttle; should it die before, the throttle is looked at after so many seconds. */
const fullRecheckSeconds = 5;
/** While a project is paused, its throttles are looked at that often, in seconds. */
const pausedRecheckSeconds = 30;
/** Whoever makes room for a webhook that is held back looks at it; should it die before, after so many seconds. */
const heldBackRecheckSeconds = 15;
/** As above; there may be thousands, and every look at any webhook looks whether there is room for one of them. */
const crowdedOutRecheckSeconds = 60;

// Of a rate some tokens are waited for, not each.
const scheduleSql = `
  with state as materialized (${stateSql}), waiting as (
    select s.webhook_id, s.project_id, s.is_open, s.is_quick, s.webhook_id = any ($3::uuid[]) as is_held_back, s.webhook_id = any ($4::uuid[]) as is_crowded_out, s.quarter, s.under_way, s.rate, s.tokens - ($2::int[])[array_position($1::uuid[], s.webhook_id)] as tokens, (select next_attempt_at from webhook_deliveries d
      where d.webhook_id = s.webhook_id and d.next_attempt_at is not null and d.job_id is null
      order by d.next_attempt_at limit 1) as first_at
    from state s
  )
  update webhook_throttles l set tokens = w.tokens, tokens_at = clock_timestamp(),
    slow_scope = case when is_crowded_out then '${allProjects}' when is_held_back or not w.is_quick and under_way > 0 then w.project_id end,
    waits_since = case when is_held_back then coalesce(l.waits_since, now()) end, next_at = case
    when first_at is null then null
    when not is_open then now() + make_interval(secs => ${pausedRecheckSeconds})
    when quarter <= under_way then now() + make_interval(secs => ${fullRecheckSeconds})
    when is_crowded_out then now() + make_interval(secs => ${crowdedOutRecheckSeconds})
    when is_held_back then now() + make_interval(secs => ${heldBackRecheckSeconds})
    else greatest(first_at, l.closed_until, l.retry_after, case when w.tokens < 1
      then now() + make_interval(secs => (greatest(1, w.rate / 10) - w.tokens) / w.rate) end) end
  from waiting w where l.webhook_id = w.webhook_id
  returning extract(epoch from l.next_at - clock_timestamp())::float8 * 1000 as in_ms`;

/**
 * Notes what throttles have used of their rate, and when each has something to do next. The throttles must be locked.
 * @param turns what each of them has just had
 * @returns in how many ms the first of them has; null: none of them has
 */
export const scheduleThrottles = async (
  tx: Tx,
  { counts, heldBack, crowdedOut }: ClaimedDeliveries,
): Promise<number | null> => {
  const rows = await tx.query<{ in_ms: number | null }>(
    scheduleSql,
    [[...counts.keys()], [...counts.values()], heldBack, crowdedOut],
    'schedule-throttles',
  );
  const times = rows.flatMap(({ in_ms: inMs }) => (inMs === null ? [] : [inMs]));
  return times.length === 0 ? null : Math.max(0, Math.min(...times));
};

/**
 * Skips what waits for webhooks that are not active, some at a time. The throttles must be locked.
 * @returns how many there were; less than `max`: that was all
 */
export const skipWaiting = async (tx: Tx, webhookIds: readonly string[], max: number): Promise<number> => {
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

/** From now on the webhooks' throttles are looked at: they have something to do. */
export const wakeThrottles = async (db: Queryable, webhookIds: readonly string[]): Promise<void> => {
  await db.query(
    `update webhook_throttles l set next_at = least(l.next_at, now()) from (
       select webhook_id from webhook_throttles where webhook_id = any ($1::uuid[]) order by webhook_id for update) as locked
     where l.webhook_id = locked.webhook_id`,
    [webhookIds],
    'wake-throttles',
  );
};

/**
 * As `wakeThrottles`, without a wait for throttles that somebody else holds just now.
 * @returns those: they are to be woken later
 */
export const wakeUnlockedThrottles = async (db: Queryable, webhookIds: readonly string[]): Promise<string[]> => {
  const lockedElsewhere = await db.query<{ webhook_id: string }>(
    `with locked as materialized (
       select webhook_id from webhook_throttles where webhook_id = any ($1::uuid[]) order by webhook_id
       for update skip locked
     ), woken as (
       update webhook_throttles l set next_at = least(l.next_at, now()) from locked where l.webhook_id = locked.webhook_id
     )
     select webhook_id from webhook_throttles
     where webhook_id = any ($1::uuid[]) and webhook_id not in (select webhook_id from locked)`,
    [webhookIds],
    'wake-free-throttles',
  );
  return lockedElsewhere.map((throttle) => throttle.webhook_id);
};
