import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { bodyOf, maxDataBytes } from './message.ts';
import type { DeliveryRow, DeliveryStatus, EventRow } from './store.ts';

// Ids are in order of time, but for the clocks of who makes them.
const clocksApartMs = 60_000;

/** Nothing that was made at that time or later has a lower id. */
export const earliestId = (since: Date): string => firstIdAt(since.getTime() - clocksApartMs);

/** Nothing that was made before that time has this id or a higher one. */
export const latestId = (until: Date): string => firstIdAt(until.getTime() + clocksApartMs);

/** A delivery with what it sends. */
export interface ListedDelivery extends DeliveryRow {
  /** Null when its event is gone; in a list, when it is long. */
  readonly request_body: string | null;
}

/** Longer bodies are left out of a list: two hundred whole ones would be 60 MB. */
export const maxListedBodyLength = 4096;
/** A busy webhook has millions of deliveries: what is counted and skipped for a page is bounded. */
export const maxListed = 10_000;
/** No index has the event: it would cost each delivery three entries. It is searched for among so many. */
export const maxSearched = 20_000;

const common = `d.id, d.webhook_id, d.project_id, d.event_id, d.event, d.status, d.attempt, d.attempts_before,
  d.next_attempt_at, d.job_id, d.status_code, d.response_time_ms, d.request_headers::text as request_headers, d.error,
  d.attempts, d.response_truncated,
  d.created_at, d.finished_at`;

type DeliveryAndEvent = DeliveryRow & {
  readonly event_name: string | null;
  readonly event_data: string | null;
  readonly event_at: Date | null;
};

const eventColumns = 'e.event as event_name, e.created_at as event_at';

const withBody = (
  { event_name: event, event_data: data, event_at: at, ...row }: DeliveryAndEvent,
  dataUrl: ((event: EventRow) => string) | null,
): ListedDelivery => {
  if (event === null || data === null || at === null) return { ...row, request_body: null };
  const eventRow: EventRow = { id: row.event_id, project_id: row.project_id, event, data, created_at: at };
  const isLarge = Buffer.byteLength(data) > maxDataBytes;
  return {
    ...row,
    request_body: bodyOf(eventRow, row.event, isLarge && dataUrl ? dataUrl(eventRow) : null).toString(),
  };
};

interface DeliveryFilter {
  readonly status?: DeliveryStatus | undefined;
  readonly event?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  readonly limit: number;
  readonly offset: number;
}

// Unnamed statements are planned for their values: a null takes its condition out of the plan.
const those = `from webhook_deliveries d where d.webhook_id = $1 and ($2::text is null or d.status = $2)
  and ($4::timestamptz is null or d.created_at >= $4 and d.id >= $5::uuid)
  and ($6::timestamptz is null or d.created_at < $6 and d.id < $7::uuid)`;

const withEvent = `from (select d.* ${those} order by d.id desc limit ${maxSearched}) d where d.event = $3`;
// The parameter's type has to be known in either statement.
const withAnyEvent = `${those} and $3::text is null`;

const shortBodies = `case when octet_length(d.response_body) <= ${maxListedBodyLength}
    then d.response_body end as response_body,
  case when pg_column_size(e.data) <= ${maxListedBodyLength} then e.data::text end as event_data`;

const withoutLong = (row: ListedDelivery): ListedDelivery => ({
  ...row,
  request_body: row.request_body !== null && row.request_body.length > maxListedBodyLength ? null : row.request_body,
});

// The planner takes a webhook for small that became busy after the table was last analyzed: it would read and sort all
// of its rows.
const inIndexOrder = { enable_bitmapscan: 'off', enable_seqscan: 'off', enable_sort: 'off' } as const;

/** The times of a filter, each with the bound of ids that follows from it. */
const boundsOf = ({ since, until }: Pick<DeliveryFilter, 'since' | 'until'>): unknown[] => [
  since ?? null,
  since ? earliestId(since) : null,
  until ?? null,
  until ? latestId(until) : null,
];

/**
 * A webhook's deliveries, the latest first, without long bodies; counted up to 10,000. A filter for an event searches
 * the latest 20,000 that match the other filters.
 */
export const listDeliveries = (
  db: ControlDb,
  webhookId: string,
  { status, event, since, until, limit, offset }: DeliveryFilter,
): Promise<{ deliveries: ListedDelivery[]; total: number }> => {
  const found = event === undefined ? withAnyEvent : withEvent;
  const which = [webhookId, status ?? null, event ?? null, ...boundsOf({ since, until })];
  return db.transaction(async (tx) => {
    const rows = await tx.query<DeliveryAndEvent>(
      `select ${common}, ${shortBodies}, ${eventColumns}
       from (select d.* ${found} order by d.id desc limit $8 offset $9) d
         left join outbox_events e on e.id = d.event_id order by d.id desc`,
      [...which, limit, offset],
    );
    const { total } = await one(
      tx.query<{ total: number }>(
        `select count(*) as total from (select ${found} order by d.id desc limit ${maxListed}) counted`,
        which,
      ),
    );
    return { deliveries: rows.map((row) => withoutLong(withBody(row, null))), total };
  }, inIndexOrder);
};

interface ProjectDeliveryFilter extends Omit<DeliveryFilter, 'offset' | 'status'> {
  readonly statuses?: readonly DeliveryStatus[] | undefined;
  /** A part of the event's name or of the error. */
  readonly text?: string | undefined;
  readonly webhookId?: string | undefined;
  /** Only older deliveries than that one. */
  readonly before?: string | undefined;
}

/** With a filter for an event, so many of each webhook are searched. */
export const maxSearchedOfEach = 2000;

// Each webhook gives its latest by its own index; an index by project would cost every delivery another entry.
const ofProject = (inner: string): string => `
  from webhooks w cross join lateral (${inner}) d
  where w.project_id = $1 and w.kind = 'http' and w.deleted_at is null and ($2::uuid is null or w.id = $2)`;

const oneWebhook = `select * from webhook_deliveries d where d.webhook_id = w.id and ($3::text[] is null or d.status = any ($3))
  and d.id < coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  and ($6::timestamptz is null or d.created_at >= $6 and d.id >= $7::uuid)
  and ($8::timestamptz is null or d.created_at < $8 and d.id < $9::uuid)
  and ($11::text is null or d.event ilike $11 or d.error ilike $11)
  order by d.id desc`;

const pattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

const latestOfProject = ofProject(`${oneWebhook} limit $10`);
const latestWithEvent = ofProject(
  `select * from (${oneWebhook} limit ${maxSearchedOfEach}) d where d.event = $4 order by d.id desc limit $10`,
);

const searchMs = '3000';

const tooSlow = (error: unknown): unknown =>
  error instanceof Error && Reflect.get(error, 'code') === '57014'
    ? new ServiceError('validation_failed', 'This list looks at too many deliveries.', {
        hint: 'Name a webhook, or a shorter time.',
        cause: error,
      })
    : error;

/**
 * The deliveries of all webhooks of a project, the latest first, without long bodies.
 * @throws {ServiceError} `validation_failed` when that takes longer than three seconds
 * @returns `next` for `before`; null at the end
 */
export const listProjectDeliveries = async (
  db: ControlDb,
  projectId: string,
  { webhookId, statuses, event, before, text, limit, ...times }: ProjectDeliveryFilter,
): Promise<{ deliveries: ListedDelivery[]; next: string | null }> => {
  const which = [projectId, webhookId ?? null, statuses ?? null, event ?? null, before ?? null];
  const searched = text === undefined ? null : pattern(text);
  const values = [...which, ...boundsOf(times), limit + 1, searched];
  const found = event === undefined ? `${latestOfProject} and $4::text is null` : latestWithEvent;
  const rows = await db
    .transaction(
      (tx) =>
        tx.query<DeliveryAndEvent>(
          `select ${common}, ${shortBodies}, ${eventColumns}
         from (select d.* ${found} order by d.id desc limit $10) d
           left join outbox_events e on e.id = d.event_id order by d.id desc`,
          values,
        ),
      { ...inIndexOrder, statement_timeout: searchMs },
    )
    .catch((error: unknown) => {
      throw tooSlow(error);
    });
  const page = rows.slice(0, limit).map((row) => withoutLong(withBody(row, null)));
  return { deliveries: page, next: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
};

/**
 * A delivery as it is or would be sent.
 * @param dataUrl the link that stands instead of data that are too large
 * @throws {ServiceError} `not_found`
 */
export const getDelivery = async (
  db: Queryable,
  { webhookId, id }: { readonly webhookId: string; readonly id: string },
  dataUrl: (event: EventRow) => string,
): Promise<ListedDelivery> => {
  const row = await maybeOne(
    db.query<DeliveryAndEvent>(
      `select ${common}, d.response_body, e.data::text as event_data, ${eventColumns}
       from webhook_deliveries d left join outbox_events e on e.id = d.event_id
       where d.webhook_id = $1 and d.id = $2`,
      [webhookId, id],
    ),
  );
  if (row === undefined) throw notFound('delivery');
  return withBody(row, dataUrl);
};

/** A `test.ping` on its way: its event, and its delivery. */
export interface Ping {
  readonly projectId: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly deliveryId: string;
}

export const newPing = (projectId: string, webhookId: string): Ping => ({
  projectId,
  webhookId,
  eventId: newId(),
  deliveryId: newId(),
});

/** One try, by that job, and no other: it is tried at once, whatever its throttle is like. */
export const insertPing = async (db: Queryable, ping: Ping, jobId: string): Promise<void> => {
  const { projectId, webhookId, eventId, deliveryId } = ping;
  await requireRoomForPing(db, webhookId);
  const data = { webhook_id: webhookId, message: 'This is a test: it tells of nothing that happened.' };
  await db.query(
    `insert into outbox_events (id, project_id, event, data, fanned_at) values ($1, $2, 'test.ping', $3, now())`,
    [eventId, projectId, JSON.stringify(data)],
  );
  await db.query(
    `insert into webhook_deliveries (id, webhook_id, project_id, event_id, event, status, job_id)
     values ($1, $2, $3, $4, 'test.ping', 'pending', $5)`,
    [deliveryId, webhookId, projectId, eventId, jobId],
  );
};

/** Takes back a test that was not sent. */
export const deletePing = async (db: Queryable, { deliveryId, eventId }: Ping): Promise<void> => {
  await db.query('delete from webhook_deliveries where id = $1', [deliveryId]);
  await db.query('delete from outbox_events where id = $1', [eventId]);
};

/** How the last try of a delivery ended. */
export type Sent = Pick<DeliveryRow, 'status' | 'status_code' | 'response_time_ms' | 'error'>;

export const findSent = (db: Queryable, projectId: string, id: string): Promise<Sent | undefined> =>
  maybeOne(
    db.query<Sent>(
      'select status, status_code, response_time_ms, error from webhook_deliveries where project_id = $1 and id = $2',
      [projectId, id],
    ),
  );

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
      `select count(*) as pings from webhook_deliveries
       where webhook_id = $1 and job_id is not null and event = 'test.ping'`,
      [webhookId],
    ),
  );
  if (pings < maxPings) return;
  throw new ServiceError('conflict', `${maxPings} tests of this webhook are under way.`, {
    hint: 'Send another one when they have ended: a receiver has 15 s for its answer.',
  });
};
