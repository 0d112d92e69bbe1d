import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { ControlDb, Queryable, Tx } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import { byIndex } from './store.ts';

const plans = webhookDeliver.running;

/** Of a project `p` with its limits `j`: how many tries it may have running. */
const runningSql = `coalesce(j.running, case p.plan
  when 'free' then ${plans.free} when 'pro' then ${plans.pro} else ${plans.enterprise} end)`;

/** How many of its webhooks that are not quick may have a try under way, each one. */
const shareSql = `greatest(2, ${runningSql} / 4)`;

/** Within so many ms a success is a quick one. A try that fails later than that counts as two failures: it held a slot. */
export const quickMs = 2000;

/**
 * How many webhooks that are not quick may have a try under way, of all projects together, where nothing else is said: half
 * of the slots that a worker has unless set. Whichever worker they come to, others find room there.
 */
const usualSlowAtOnce = 256;

/** In place of the project: those that wait since there are too many of all projects. */
const allProjects = '00000000-0000-0000-0000-000000000000';

const busySql = (which: string): string => `(select count(*) from webhook_throttles o
  where ${which} and o.waits_since is null and o.webhook_id <> all ($1::uuid[]))`;

/**
 * Webhooks of `state`, the throttles `$1`, that are not quick and have something to do, each with its place among those of its
 * project, and whether it may have a try, so that there are at most `$2` of all projects. Those with a try under way are
 * first, then who has waited longest. Two processes at a time may give one place twice.
 */
const slowSql = `
  select placed.*, under_way > 0 or place <= share and everybody.busy + count(*) filter (where place <= share) over (
      order by under_way > 0 desc, waits_since nulls last, webhook_id) <= $2::int as is_let
  from (
    select s.webhook_id, s.project_id, s.share, s.under_way, s.waits_since, others.busy + row_number() over (
        partition by s.project_id order by s.under_way > 0 desc, s.waits_since nulls last, s.webhook_id) as place
    from state s join (
        select project_id, ${busySql('o.slow_scope = p.project_id')} as busy
        from (select distinct project_id from state where not is_quick) p) as others on others.project_id = s.project_id
    where not s.is_quick and (s.under_way > 0 or s.is_open and not s.is_closed and s.tokens >= 1 and exists (
      select from webhook_deliveries d
      where d.webhook_id = s.webhook_id and d.next_attempt_at <= now() and d.job_id is null))) as placed
    cross join lateral (select ${busySql('o.slow_scope is not null')} as busy) as everybody`;

/**
 * Webhooks that wait until others that are not quick, of their project or of all, have no try under way: as many as there is
 * room for, should these throttles have made it.
 */
const heldBackBeside = async (
  db: Queryable,
  webhookIds: readonly string[],
  max = usualSlowAtOnce,
): Promise<string[]> => {
  const rows = await db.query<{ webhook_id: string }>(
    `select b.webhook_id
     from (select distinct w.project_id as id from webhooks w where w.id = any ($1::uuid[])
         and exists (select from webhook_throttles h where h.slow_scope = w.project_id and h.waits_since is not null)) as those
       join projects p on p.id = those.id
       left join job_limits j on j.project_id = p.id and j.type = '${webhookDeliver.type}'
       cross join lateral (
         select h.webhook_id from webhook_throttles h
         where h.slow_scope = p.id and h.waits_since is not null and h.webhook_id <> all ($1::uuid[])
         order by h.waits_since limit greatest(0, ${shareSql} - ${busySql('o.slow_scope = p.id')})) as b
     union
     select c.webhook_id from (select where exists (select from webhook_throttles where slow_scope = '${allProjects}')) as any_wait
       cross join lateral (
         select h.webhook_id from webhook_throttles h
         where h.slow_scope = '${allProjects}' and h.waits_since is not null and h.webhook_id <> all ($1::uuid[])
         order by h.waits_since limit greatest(0, $2::int - ${busySql('o.slow_scope is not null')})) as c`,
    [webhookIds, max],
    'held-back-beside',
  );
  return rows.map((row) => row.webhook_id);
};

/** A throttle that this transaction holds. */
interface LockedThrottle {
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
const lockDueThrottles = (tx: Tx, max: number): Promise<LockedThrottle[]> =>
  tx.query<LockedThrottle>(
    `select ${lockColumns}
     where l.webhook_id in (select webhook_id from webhook_throttles where next_at <= now() order by next_at limit $1)
       and l.next_at <= now()
     order by l.webhook_id for update of l skip locked`,
    [max],
    'lock-due-throttles',
  );

/** Whether the time of any throttle has come. */
const isThrottleDue = async (db: Queryable): Promise<boolean> =>
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
interface ClaimedDeliveries {
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

/** From now on the webhooks' throttles are looked at: they have something to do. */
const wakeThrottles = async (db: Queryable, webhookIds: readonly string[]): Promise<void> => {
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

export interface PumpDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many webhooks that are not quick may have a try under way, of all projects; left out: the usual number. */
  readonly slowAtOnce?: number;
}

/** What came of looking at throttles. */
interface Pumped {
  /** Inserted; to be admitted after the commit. */
  readonly jobs: readonly NewJobRow[];
  /** In how many ms the first of the throttles has something to do again; null: none has. */
  readonly nextInMs: number | null;
  readonly throttles: number;
}

/** What is to be looked at again. */
export interface BatchResult {
  /** In how many ms one of them has something to do again; null: none has. */
  readonly nextInMs: number | null;
  /** Webhooks whose throttles somebody else held: nobody has looked at them. */
  readonly lockedElsewhereIds: readonly string[];
}

const maxThrottles = 500;
const maxSkipped = 2000;

/** Within a transaction that holds the throttles: those deliveries whose turn it is become jobs. */
const runLockedBatch = async (tx: Tx, throttles: readonly LockedThrottle[], slowAtOnce?: number): Promise<Pumped> => {
  const active = throttles.filter((throttle) => throttle.is_active).map((throttle) => throttle.webhook_id);
  const inactive = throttles.filter((throttle) => !throttle.is_active).map((throttle) => throttle.webhook_id);
  const skipped = inactive.length > 0 ? await skipWaiting(tx, inactive, maxSkipped) : 0;
  const more = skipped >= maxSkipped ? 0 : null;
  if (active.length === 0) return { jobs: [], nextInMs: more, throttles: throttles.length };
  const claimed = await claimDeliveries(tx, active, slowAtOnce);
  if (claimed.jobs.length > 0) await insertJobs(tx, claimed.jobs);
  const next = await scheduleThrottles(tx, claimed);
  return { jobs: claimed.jobs, nextInMs: more ?? next, throttles: throttles.length };
};

/** Never fails: what the gate does not take now, the reconciler brings to it within seconds. */
const admitAll = async ({ gate, log }: Omit<PumpDeps, 'db'>, jobs: readonly NewJobRow[]): Promise<void> => {
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

/** Whoever has ended a try may have made room for others. */
const lockBeside = async (
  tx: Tx,
  throttles: readonly LockedThrottle[],
  slowAtOnce?: number,
): Promise<LockedThrottle[]> => {
  if (throttles.length === 0) return [];
  const beside = await heldBackBeside(
    tx,
    throttles.map((throttle) => throttle.webhook_id),
    slowAtOnce,
  );
  return beside.length === 0 ? [] : (await lockThrottles(tx, beside)).throttles;
};

const pumpSome = async (deps: PumpDeps, lock: (tx: Tx) => Promise<LockedThrottle[]>): Promise<Pumped> => {
  const pumped = await deps.db.transaction(async (tx) => {
    const throttles = await lock(tx);
    return {
      ...(await runLockedBatch(
        tx,
        [...throttles, ...(await lockBeside(tx, throttles, deps.slowAtOnce))],
        deps.slowAtOnce,
      )),
      throttles: throttles.length,
    };
  }, byIndex);
  await admitAll(deps, pumped.jobs);
  return pumped;
};

/**
 * Begins what can be begun of these webhooks' deliveries. To be called after the commit of whatever gave them something to
 * do: new deliveries, a webhook that became active or inactive. Should it fail, the sweep of the workers does it within a
 * second.
 */
export const runBatch = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<BatchResult> => {
  let next: number | null = null;
  const lockedElsewhere: string[] = [];
  for (let i = 0; i < webhookIds.length; i += maxThrottles) {
    const some = webhookIds.slice(i, i + maxThrottles);
    const { nextInMs } = await pumpSome(deps, async (tx) => {
      const { throttles, lockedElsewhereIds } = await lockThrottles(tx, some);
      lockedElsewhere.push(...lockedElsewhereIds);
      return throttles;
    });
    next = soonest(next, nextInMs);
  }
  return { nextInMs: next, lockedElsewhereIds: lockedElsewhere };
};

/** As `runBatch`; what fails is left to the sweep. */
export const pump = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<void> => {
  try {
    // Before, so that the sweep finds what this does not get done.
    await wakeThrottles(deps.db, webhookIds);
    await runBatch(deps, webhookIds);
  } catch (error) {
    deps.log.warn({ err: error }, 'due deliveries wait for the next poll of their webhooks');
  }
};

/**
 * Looks at the throttles whose time has come, whoever left them so.
 * @returns in how many ms one of them has something to do again; null: none has
 */
export const pumpDue = async (deps: PumpDeps): Promise<number | null> => {
  let next: number | null = null;
  let throttles: number;
  // Most of the time there is none: then it is one statement and no transaction.
  if (!(await isThrottleDue(deps.db))) return null;
  do {
    const pumped = await pumpSome(deps, (tx) => lockDueThrottles(tx, maxThrottles));
    next = soonest(next, pumped.nextInMs);
    throttles = pumped.throttles;
  } while (throttles === maxThrottles);
  return next;
};
