import { z } from 'zod';
import { faultOfPattern } from '#domain/events/events.ts';
import { faultOfSecret } from '#domain/webhooks/secrets.ts';
import { type DeliveryStatus, type ListedWebhook, deliveryStatuses } from '#domain/webhooks/store.ts';
import { type ListedDelivery, maxListed, maxSearched, maxSearchedOfEach } from '#domain/webhooks/deliveries.ts';
import { id, instant, name, namedObject, page, shownOnce, text, wholeNumber } from '#api/fields.ts';

/** Webhooks and their deliveries as their project sees them (contract, section 6). */

const httpUrl = text(2048, 1).refine(
  (value) => {
    const url = /^https?:\/\/\S+$/i.test(value) ? URL.parse(value) : null;
    return url !== null && url.username === '' && url.password === '';
  },
  { error: 'must be an http or https URL without a user name' },
);

const faultOfEvents = (events: readonly string[], at: number): string | null => {
  const event = events[at] ?? '';
  if (events.indexOf(event) < at) return 'stands there twice';
  return faultOfPattern(event);
};

const eventNames = z
  .array(text(1000, 1))
  .min(1)
  .max(100)
  .superRefine((events, context) => {
    for (const at of events.keys()) {
      const message = faultOfEvents(events, at);
      if (message !== null) context.addIssue({ code: 'custom', path: [at], message });
    }
  })
  .describe('Names of events, `*`, or a group and `.*`: `db.insert`, `table.users.UPDATE`, `table.users.*`, `auth.*`.');

/** A secret of the caller's own. */
export const ownSecret = z
  .string()
  .max(256)
  .superRefine((secret, context) => {
    const message = faultOfSecret(secret);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .describe('8 to 256 printable characters; what begins with `whsec_` is a key in base64.');

const fields = {
  url: httpUrl,
  events: eventNames,
  filter: text(4096, 1)
    .nullable()
    .describe("Which of these events it gets: `data.status = 'paid' and old.status <> 'paid'`. Null: all."),
  name: name.nullable(),
  secret: ownSecret,
  active: z.boolean().describe('The same as is_active.'),
  is_active: z.boolean(),
  send_secret: z.boolean().describe('Whether deliveries carry the secret in `X-Webhook-Secret`.'),
  rate_per_second: z.int().min(1).max(1000),
};

interface Activity {
  readonly active?: boolean | undefined;
  readonly is_active?: boolean | undefined;
}

const agree = ({ active, is_active }: Activity): boolean =>
  active === undefined || is_active === undefined || active === is_active;
const disagreement = { path: ['active'], error: 'must not differ from is_active: give one of them' };

/** Both shapes of the interface in one: `{url, events, secret?}` and `{name, url, events, is_active}`. */
export const newWebhook = z
  .strictObject({ ...z.object(fields).partial().shape, url: fields.url, events: fields.events })
  .refine(agree, disagreement);

export const webhookChange = z.strictObject(z.object(fields).partial().shape).refine(agree, disagreement);

/** Returns the webhook's own fields of a body: activity under its one name. */
export const fieldsOf = <Body extends Activity>({
  active,
  is_active,
  ...rest
}: Body): Omit<Body, keyof Activity> & { is_active: boolean | undefined } => ({
  ...rest,
  is_active: is_active ?? active,
});

export const webhook = namedObject('Webhook', {
  id,
  name: z.string().nullable(),
  url: z.string(),
  events: z.array(z.string()),
  filter: z.string().nullable(),
  active: z.boolean(),
  is_active: z.boolean(),
  send_secret: z.boolean(),
  rate_per_second: z.int(),
  disabled_reason: z.string().nullable().describe('Why the platform made it inactive.'),
  failing_since: instant.nullable().describe('Since when every try failed.'),
  paused_until: instant.nullable().describe('Nothing is tried before.'),
  created_at: instant,
  updated_at: instant,
});

export const webhookWithSecret = namedObject('WebhookWithSecret', {
  ...webhook.shape,
  secret: shownOnce(z.string()).describe('Signs deliveries. It appears here only.'),
});

export const shownWebhook = <Row extends ListedWebhook>(row: Row) => ({
  ...row,
  url: row.url ?? '',
  events: [...row.events],
  active: row.is_active,
  paused_until: row.closed_until,
});

const deliveryStatus = z.enum(deliveryStatuses);

const isoTime = z.iso.datetime({ offset: true });

/** In a query, a plus sign that was not escaped has become a space. */
const withPlus = (value: string): string => value.replace(/ (?=\d\d:?\d\d$)/, '+');

/** A point in time as callers write it: ISO 8601 with `Z` or an offset. */
const moment = z.codec(
  z
    .string()
    .refine((value) => isoTime.safeParse(withPlus(value)).success, {
      error: 'must be a time such as 2026-05-31T18:00:00Z or 2026-05-31T20:00:00+02:00',
    })
    .meta({ format: 'date-time' }),
  z.date(),
  { decode: (value) => new Date(withPlus(value)), encode: (value) => value.toISOString() },
);

const tooFar = `must be at most ${maxListed}: look further back with until, or narrow the list with since`;

// The bound says what else to do.
const offset = wholeNumber(0, 0, Number.MAX_SAFE_INTEGER).refine((value) => value <= maxListed, { error: tooFar });

/** The parameters of a list of deliveries. */
export const deliveryQuery = page.extend({
  offset,
  status: deliveryStatus.optional(),
  event: text(200, 1)
    .optional()
    .describe(`As the webhook is told of it; among the latest ${maxSearched} that the other filters leave.`),
  since: moment.optional(),
  until: moment.optional().describe('Made before.'),
});

/** The parameters of a list of the deliveries of all webhooks. */
export const projectDeliveryQuery = deliveryQuery.omit({ offset: true, event: true }).extend({
  webhook_id: id.optional(),
  event: text(200, 1)
    .optional()
    .describe(
      `As the webhook is told of it; among the latest ${maxSearchedOfEach} of each that the other filters leave.`,
    ),
  before: id.optional().describe('`next` of the page before.'),
});

export const replayRequest = z
  .strictObject({
    since: moment,
    until: moment.optional(),
    statuses: z
      .array(deliveryStatus.exclude(['pending']))
      .min(1)
      .max(4)
      .default(['success', 'failed', 'exhausted', 'skipped']),
    dry_run: z.boolean().default(false).describe('Counts only.'),
  })
  .refine(({ since, until }) => until === undefined || since < until, {
    path: ['until'],
    error: 'must be later than since',
  });

export const delivery = namedObject('Delivery', {
  id,
  webhook_id: id,
  event: z.string(),
  event_id: id.describe('The same on every try, as `webhook-id` and in the body.'),
  attempt: z.int().describe('Counts the tries.'),
  status: deliveryStatus,
  status_code: z.int().nullable(),
  response_time_ms: z.int().nullable(),
  request_headers: z.record(z.string(), z.string()).nullable().describe('Of the last try, without secrets.'),
  request_body: z.string().nullable(),
  response_body: z.string().nullable().describe('Its first 64 KB, unless the project stored more than its plan gives.'),
  response_truncated: z.boolean().describe('More than that was answered.'),
  attempts: z
    .array(
      z.object({
        at: instant,
        status_code: z.int().nullable(),
        error: z.string().nullable(),
        response_time_ms: z.int().nullable(),
      }),
    )
    .describe('Its last 50 tries, the latest last.'),
  error: z.string().nullable(),
  next_attempt_at: instant.nullable(),
  created_at: instant,
});

export type ShownDelivery = z.output<typeof delivery> & { readonly status: DeliveryStatus };

export const shownDelivery = ({ request_headers: headers, attempts, ...row }: ListedDelivery): ShownDelivery => ({
  ...row,
  attempts: attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at) })),
  request_headers: headers === null ? null : (JSON.parse(headers) as Record<string, string>),
});
