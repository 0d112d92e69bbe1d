import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** Tests go past their webhook's rate and its share of what may be under way. */
const maxPings = 2;

/**
 * To be asked in the transaction that adds a test of that webhook.
 * @throws {ServiceError} `conflict` while others are under way
 */
export const requireRoomForPing = async (db: Queryable, webhookId: string): Promise<void> => {
  // One at a time counts and adds.
  await db.query(`select pg_advisory_xact_lock(hashtextextended('webhook-test:' || $1, 0))`, [webhookId]);
  const { pings } = await one(
    db.query<{ pings: number }>(
      `select count(*) as pings from webhook_deliveries where webhook_id = $1 and job_id is not null and event = 'test.ping'`,
      [webhookId],
    ),
  );
  if (pings < maxPings) return;
  throw new ServiceError('conflict', `${maxPings} tests of this webhook are under way.`, {
    hint: 'Send another one when they have ended: a receiver has 15 s for its answer.',
  });
};
