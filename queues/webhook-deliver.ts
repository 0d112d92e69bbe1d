import { z } from 'zod';
import { defineJob } from './define.ts';

/** One try of one delivery: a signed POST to a webhook, or a message to a chat. Further tries are jobs of their own. */
export const webhookDeliver = defineJob({
  type: 'webhook.deliver',
  pool: 'webhooks',
  data: z.object({ delivery_id: z.uuid() }),
  result: z.object({
    delivery_id: z.uuid(),
    /** Null: there was no answer. */
    status_code: z.int().nullable(),
    response_time_ms: z.number().nonnegative(),
  }),
  running: { free: 10, pro: 50, enterprise: 200 },
  plural: 'Deliveries',
  // The receiver's answer is an outcome; these retries are for faults of ours before anything was sent.
  maxAttempts: 5,
  // The receiver may get it twice, under the same webhook-id.
  repeatable: true,
  timeoutMs: 60_000,
  // Deliveries are never refused: they wait as rows, and only claimed ones become jobs.
  capped: false,
});
