import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { earliestId, latestId } from './deliveries.ts';
import {
  type DeliveryRow,
  type DeliveryStatus,
  type WebhookRow,
  findWebhook,
  lockWebhook,
  reopenBreaker,
} from './store.ts';

/** @throws {ServiceError} `not_found`, `conflict` */
const requireActive = (webhook: WebhookRow | undefined): void => {
  if (webhook === undefined) throw notFound('webhook');
  if (webhook.is_active) return;
  throw new ServiceError('conflict', 'The webhook is inactive.', {
    hint: 'Make it active first: PUT {"active":true}.',
  });
};

// The result of the last attempt stays until the next one has ended; the count of attempts goes on.
const resetSql = `status = 'pending', attempts_before = attempt, next_attempt_at = now(), finished_at = null,
  error = null`;

/** Where a delivery is found. */
export interface DeliveryPlace {
  readonly projectId: string;
  readonly webhookId: string;
  readonly id: string;
}

type Found = Pick<DeliveryRow, 'job_id' | 'event'>;

/**
 * Locks a delivery without a wait: a transaction that holds a throttle waits for no delivery, since others wait for
 * throttles while they hold deliveries.
 * @throws {ServiceError} `not_found`; `conflict` while somebody else holds it
 */
const lockDelivery = async (db: Queryable, { webhookId, id }: DeliveryPlace): Promise<Found> => {
  const found = `select job_id, event from webhook_deliveries where webhook_id = $1 and id = $2`;
  const row = await maybeOne(db.query<Found>(`${found} for no key update skip locked`, [webhookId, id]));
  if (row !== undefined) return row;
  if ((await db.query<Found>(found, [webhookId, id])).length === 0) throw notFound('delivery');
  throw new ServiceError('conflict', 'The delivery is being replayed.', { hint: 'Look at it again in a second.' });
};

/**
 * Has a delivery tried anew from the first try on, however it ended. The caller pumps the throttle when this is
 * committed.
 * @throws {ServiceError} `not_found`; `conflict` while it is under way or replayed, for a test, and while the webhook
 * is inactive
 */
export const redeliver = async (db: Queryable, place: DeliveryPlace): Promise<void> => {
  const { projectId, webhookId, id } = place;
  requireActive(await lockWebhook(db, projectId, webhookId));
  const row = await lockDelivery(db, place);
  if (row.job_id !== null) throw new ServiceError('conflict', 'The delivery is under way.');
  if (row.event.startsWith('test.')) throw new ServiceError('conflict', 'A test is not repeated: send another one.');
  await db.query(`update webhook_deliveries set ${resetSql} where id = $1`, [id]);
  await reopenBreaker(db, webhookId);
};

/** Which of a webhook's deliveries are to be made once more. */
export interface Replay {
  readonly since: Date;
  readonly until?: Date | undefined;
  readonly statuses: readonly DeliveryStatus[];
}

/** A replay ends after so many, or a step later; a count ends there, too. */
const maxReplayed = 100_000;
const replayStep = 5000;

// Each status has its own index, so that the cost of a step does not depend on the other rows. The throttle comes last,
// as in the record of attempts, and is locked only until this is committed.
const stepSql = `
  with picked as materialized (
    select d.id from (select distinct unnest($5::text[]) as status) wanted cross join lateral (
      select id from webhook_deliveries
      where webhook_id = $1 and status = wanted.status and id > $2::uuid and id < $6::uuid
        and created_at >= $3 and ($4::timestamptz is null or created_at < $4)
        and job_id is null and event not like 'test.%'
      order by id limit ${replayStep}) d
    where wanted.status <> 'pending' order by d.id limit ${replayStep}
  ), locked as materialized (
    select d.id from webhook_deliveries d
    where d.id in (select id from picked) and d.status = any ($5) and d.status <> 'pending' and d.job_id is null
    for no key update skip locked
  ), given as (
    update webhook_deliveries set ${resetSql} where id in (select id from locked) returning id
  ), woken as (
    update webhook_throttles set next_at = least(next_at, now())
    where webhook_id = $1 and (select count(*) from given) > 0
  )
  select (select count(*) from given) as replayed, (select count(*) from picked) as picked,
    (select id::text from picked order by id desc limit 1) as last_id`;

const countSql = `
  select count(*)::int as matched from (
    select from (select distinct unnest($5::text[]) as status) wanted cross join lateral (
      select id from webhook_deliveries
      where webhook_id = $1 and status = wanted.status and id > $2::uuid and id < $6::uuid
        and created_at >= $3 and ($4::timestamptz is null or created_at < $4)
        and job_id is null and event not like 'test.%' limit ${maxReplayed}) d
    where wanted.status <> 'pending' limit ${maxReplayed}) counted`;

interface Step {
  readonly replayed: number;
  readonly picked: number;
  /** Null: none was picked. */
  readonly last_id: string | null;
}

const untilOf = (until: Date | undefined): string =>
  until === undefined ? 'ffffffff-ffff-ffff-ffff-ffffffffffff' : latestId(until);

/**
 * How many deliveries a replay would try anew, counted up to 100,000. It changes nothing.
 * @throws {ServiceError} `not_found`
 */
export const countReplay = async (
  db: Queryable,
  { projectId, webhookId }: Omit<DeliveryPlace, 'id'>,
  { since, until, statuses }: Replay,
): Promise<number> => {
  if ((await findWebhook(db, projectId, webhookId)) === undefined) throw notFound('webhook');
  const values = [webhookId, earliestId(since), since, until ?? null, statuses, untilOf(until)];
  return (await one(db.query<{ matched: number }>(countSql, values))).matched;
};

/**
 * Has deliveries of a time tried anew, the oldest first and about 100,000 at most; not those that wait or are under
 * way. Goes in steps, each a transaction of its own: what was replayed stays so if a later step fails. The caller pumps
 * the throttle.
 * @param db not within a transaction: deliveries and their throttle would be held as long as this takes
 * @param guard asked for the webhook before each step; left out: `db`
 * @returns how many
 * @throws {ServiceError} `not_found`; `conflict` while the webhook is inactive
 */
export const replay = async (
  db: Queryable,
  { projectId, webhookId }: Omit<DeliveryPlace, 'id'>,
  { since, until, statuses }: Replay,
  guard: Queryable = db,
): Promise<number> => {
  const before = untilOf(until);
  let [replayed, after, picked] = [0, earliestId(since), replayStep];
  while (picked === replayStep && replayed < maxReplayed) {
    requireActive(await findWebhook(guard, projectId, webhookId));
    const step = await one(db.query<Step>(stepSql, [webhookId, after, since, until ?? null, statuses, before]));
    replayed += step.replayed;
    picked = step.picked;
    after = step.last_id ?? after;
  }
  return replayed;
};
