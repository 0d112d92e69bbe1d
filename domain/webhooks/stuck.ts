import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';

/** A try that a delivery waits for. */
export interface StuckTry {
  readonly deliveryId: string;
  readonly jobId: string;
  readonly webhookId: string;
}

/** The try that a job was to make; undefined when its delivery does not wait for it. */
export const findTry = (db: Queryable, jobId: string): Promise<StuckTry | undefined> =>
  maybeOne(
    db.query<{ deliveryId: string; jobId: string; webhookId: string }>(
      `select d.id as "deliveryId", j.id as "jobId", d.webhook_id as "webhookId"
       from jobs j join webhook_deliveries d on d.id = (j.data::json ->> 'delivery_id')::uuid and d.job_id = j.id
       where j.id = $1`,
      [jobId],
    ),
  );

/**
 * Tries whose job has ended or is gone, without a word of how the try went: the job was cancelled, or waited too long. Their
 * deliveries would wait for ever.
 */
export const stuckTries = (db: Queryable, max: number): Promise<StuckTry[]> =>
  db.query<{ deliveryId: string; jobId: string; webhookId: string }>(
    `select d.id as "deliveryId", d.job_id as "jobId", d.webhook_id as "webhookId"
     from webhook_deliveries d left join jobs j on j.id = d.job_id
     where d.job_id is not null and (j.id is null or j.finished_at < now() - interval '10 seconds') limit $1`,
    [max],
  );

/**
 * Has throttles looked at that have something to do and of which nobody knows when: whoever should have noted it did not.
 * @returns how many
 */
export const wakeForgottenThrottles = async (db: Queryable): Promise<number> => {
  const woken = await db.query(
    `update webhook_throttles l set next_at = now() where l.webhook_id in (
       select f.webhook_id from webhook_throttles f where f.next_at is null
         and not exists (select from webhook_deliveries d where d.webhook_id = f.webhook_id and d.job_id is not null)
         and exists (select from webhook_deliveries d
           where d.webhook_id = f.webhook_id and d.next_attempt_at is not null and d.job_id is null)
       order by f.webhook_id for update skip locked)
     returning l.webhook_id`,
  );
  return woken.length;
};

/** How far back `wakeLatelyForgotten` looks. */
export const latelyMs = 20_000;
/** However many were made in that time: a replay, or an event with thousands of webhooks, is no reason to read them all. */
const maxRead = 50_000;

/**
 * As `wakeForgottenThrottles`, of deliveries that were made lately: cheap enough to be done every few seconds. Whoever made them
 * died before it woke a throttle that somebody else had held. Not prepared: a plan for a small table would be kept for a large
 * one.
 * @returns how many
 */
export const wakeLatelyForgotten = async (db: Queryable, now = Date.now()): Promise<number> => {
  const woken = await db.query(
    `update webhook_throttles l set next_at = now() where l.webhook_id in (
       select f.webhook_id from webhook_throttles f where f.next_at is null and f.webhook_id = any (array(
         select distinct webhook_id from (
           select webhook_id, next_attempt_at, job_id from webhook_deliveries
           where id > $1::uuid order by id desc limit ${maxRead}) as made
         where next_attempt_at is not null and job_id is null))
       order by f.webhook_id for update skip locked)
     returning l.webhook_id`,
    [firstIdAt(now - latelyMs)],
  );
  return woken.length;
};
