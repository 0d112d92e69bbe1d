import { tableSubscriptionsOf } from '#domain/events/events.ts';
import { type SubscriptionsDeps, setTableSubscriptions } from '#domain/events/subscriptions.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { createPermits } from '#lib/permits.ts';
import { createSerializer } from '#lib/serialize.ts';

/** Different names of events that all webhooks of a project may ask for together. */
const maxPatterns = 2000;

// One by one in their index, however many webhooks ask for each.
const knownSql = `
  with recursive known as (
    (select pattern from webhook_patterns where project_id = $1 order by pattern limit 1)
    union all
    select (select p.pattern from webhook_patterns p
            where p.project_id = $1 and p.pattern > k.pattern order by p.pattern limit 1)
    from known k where k.pattern is not null
  ) select pattern from known where pattern is not null`;

/** The patterns that a project's webhooks subscribe to, each once. */
export const patternsOf = async (db: Queryable, projectId: string): Promise<string[]> => {
  const rows = await db.query<{ pattern: string }>(knownSql, [projectId], 'webhook-patterns');
  return rows.map(({ pattern }) => pattern);
};

const countNew = async (db: Queryable, projectId: string, events: readonly string[]): Promise<number> => {
  const { count } = await one(
    db.query<{ count: number }>(
      `select count(*) as count from unnest($2::text[]) as asked (pattern) where not exists (
         select from webhook_patterns p where p.project_id = $1 and p.pattern = asked.pattern)`,
      [projectId, events],
    ),
  );
  return count;
};

/**
 * Writes what a webhook asks for; undone, by the caller's transaction, when its project then asks for too many
 * different names. Only one that adds a name is refused.
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const withinPatterns = async (
  db: Queryable,
  { projectId, events }: { readonly projectId: string; readonly events: readonly string[] },
  write: () => Promise<void>,
): Promise<void> => {
  const added = await countNew(db, projectId, events);
  await write();
  // Other changes to the project's patterns wait from here on.
  if (added === 0 || (await patternsOf(db, projectId)).length <= maxPatterns) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `The webhooks of a project ask for at most ${maxPatterns} different names of events.`,
    { hint: 'Subscribe to groups in place of single names, such as `table.orders.*` or `db.*`.' },
  );
};

/**
 * Projects whose databases are updated at once. Each takes a connection to one; none holds one of the control database.
 */
const maxProjects = 16;
/** A caller that changed a webhook waits no longer, and gets that answer. */
const waitMs = 5000;

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Webhook subscriptions could not be updated right now; try again.');

const permits = createPermits(maxProjects, 2 * waitMs, refusal);

/**
 * When the subscriptions of a project were last changed, as text: more exact than a `Date`. Null: nothing is to be set.
 */
const wantedSince = async (db: Queryable, projectId: string): Promise<string | null> => {
  const row = await maybeOne(
    db.query<{ wanted_at: string }>(
      'select wanted_at::text as wanted_at from subscriptions_to_set where project_id = $1',
      [projectId],
    ),
  );
  return row?.wanted_at ?? null;
};

/** The time of the last change is read before the patterns, so that a later change stays to be applied. */
const setSubscriptions = async (deps: SubscriptionsDeps, projectId: string): Promise<void> => {
  const { db } = deps;
  let since: string | null = null;
  await setTableSubscriptions(deps, projectId, async () => {
    since = await wantedSince(db, projectId);
    // Inactive webhooks count, too: what they miss is listed, and can be replayed.
    return tableSubscriptionsOf([...(await patternsOf(db, projectId)), ...(await awaitedBySteps(db, projectId))]);
  });
  await db.query('delete from subscriptions_to_set where project_id = $1 and wanted_at = $2::timestamptz', [
    projectId,
    since,
  ]);
};

/** SQL: the first event behind some other one that steps of the project wait for. */
const awaitedBehind = (event: string): string => `
  select s.event from job_steps s where s.project_id = $1 and s.status = 'waiting' and s.event > ${event}
  order by s.event limit 1`;

const awaitedSql = `
  with recursive awaited as (
    (${awaitedBehind("''")})
    union all
    select (${awaitedBehind('a.event')}) from awaited a where a.event is not null
  ) select event from awaited where event is not null limit ${maxPatterns}`;

/** The events that steps of the project's runs wait for, each once, one by one in their index. */
const awaitedBySteps = async (db: Queryable, projectId: string): Promise<string[]> => {
  const rows = await db.query<{ event: string }>(awaitedSql, [projectId], 'awaited-by-steps');
  return rows.map(({ event }) => event);
};

/** At the end of the line, so that a database that is away holds up no other. */
const requestAgain = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query(
    `insert into subscriptions_to_set (project_id) select id from projects where id = $1 and deleted_at is null
     on conflict (project_id) do update set wanted_at = clock_timestamp()`,
    [projectId],
  );
};

const withPermit = async (deps: SubscriptionsDeps, projectId: string): Promise<void> => {
  try {
    await permits.acquire();
    await setSubscriptions(deps, projectId).finally(permits.release);
  } catch (error) {
    await requestAgain(deps.db, projectId).catch(() => undefined);
    throw error;
  }
};

const serialize = createSerializer();
const waiting = new Map<string, Promise<void>>();

/** One at a time for each project: a request that arrives before the next has started is served by it, too. */
const inTurn = (deps: SubscriptionsDeps, projectId: string): Promise<void> => {
  const present = waiting.get(projectId);
  if (present !== undefined) return present;
  const mine = serialize(projectId, () => {
    waiting.delete(projectId);
    return withPermit(deps, projectId);
  });
  waiting.set(projectId, mine);
  return mine;
};

const within = async (ms: number, work: Promise<void>): Promise<void> => {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(() => late.reject(refusal()), ms);
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
};

/**
 * Tells a project's database which writes leave events, as its webhooks ask for now. To be called once their change is
 * committed; costs one question when they ask for the same as before. What fails is tried again by `applyWaiting`, and
 * what takes longer than 5 s goes on.
 * @throws {ServiceError} `dependency_unavailable`: not set yet; `not_found`; whatever the project's database fails with
 */
export const applySubscriptions = async (deps: SubscriptionsDeps, projectId: string): Promise<void> => {
  if ((await wantedSince(deps.db, projectId)) === null) return;
  await within(waitMs, inTurn(deps, projectId));
};

/**
 * Has a project's database leave the events that a step waits for from now on. Where that fails it is tried again by
 * `applyWaiting`.
 * @throws whatever the project's database fails with
 */
export const subscribeSteps = async (deps: SubscriptionsDeps, projectId: string): Promise<void> => {
  await requestAgain(deps.db, projectId);
  await applySubscriptions(deps, projectId);
};

const waitingSeconds = 5;
const maxAtOnce = 20;

/**
 * Writes subscriptions whose update failed before.
 * @returns how many were looked at
 */
export const applyWaiting = async (deps: SubscriptionsDeps & { readonly log: Log }): Promise<number> => {
  const { db, log } = deps;
  const projects = await db.query<{ project_id: string }>(
    `select s.project_id from subscriptions_to_set s join projects p on p.id = s.project_id
     where s.wanted_at < clock_timestamp() - make_interval(secs => $1) and p.deleted_at is null
       and p.status <> 'creating'
     order by s.wanted_at limit $2`,
    [waitingSeconds, maxAtOnce],
  );
  // Not one after the other: those whose databases are slow would hold up the others.
  await Promise.all(
    projects.map(({ project_id: projectId }) =>
      applySubscriptions(deps, projectId).catch((error: unknown) =>
        log.debug(
          { err: error, project_id: projectId },
          'the event subscriptions of a project could not be written to its database; trying again later',
        ),
      ),
    ),
  );
  return projects.length;
};
