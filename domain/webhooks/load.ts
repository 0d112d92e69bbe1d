import { type Queryable } from '#lib/control-db.ts';
import { maxDataBytes } from './body.ts';
import type { EventRow, WebhookRow } from './types.ts';

/** A try, by its delivery and its job. */
export interface TryRef {
  readonly deliveryId: string;
  readonly jobId: string;
}

/** What of a webhook a message is made with. */
export type SubscribedWebhook = Pick<
  WebhookRow,
  | 'id'
  | 'kind'
  | 'url'
  | 'url_sealed'
  | 'secret_sealed'
  | 'previous_secret_sealed'
  | 'previous_secret_until'
  | 'send_secret'
>;

/** All that a try needs. */
export interface LoadedTry {
  readonly deliveryId: string;
  /** 0: this is the first one. */
  readonly triesBefore: number;
  /** Whether the webhook is to be told: it is active, or is being tried out. */
  readonly isWanted: boolean;
  /** The event as the webhook asked for it. */
  readonly name: string;
  /** `data` is empty where `isLarge`. */
  readonly event: EventRow;
  /** The data are left out of deliveries. */
  readonly isLarge: boolean;
  readonly webhook: SubscribedWebhook;
  /** Of its address and secrets. */
  readonly version: number;
  readonly project: { readonly id: string; readonly name: string; readonly data_key: Buffer };
}

type Row = Omit<SubscribedWebhook, 'id'> & {
  readonly delivery_id: string;
  readonly attempt: number;
  readonly event: string;
  readonly event_id: string;
  readonly of_event: string;
  readonly event_at: Date;
  readonly data: string | null;
  readonly webhook_id: string;
  readonly is_wanted: boolean;
  readonly version: number;
  readonly project_id: string;
  readonly project_name: string;
  readonly data_key: Buffer;
};

const loadSql = `
  select d.id as delivery_id, d.attempt, d.event, e.id as event_id, e.event as of_event, e.created_at as event_at,
    case when octet_length(e.data::text) <= ${maxDataBytes} then e.data::text end as data,
    w.id as webhook_id, w.kind, w.url, w.url_sealed, w.secret_sealed, w.previous_secret_sealed, w.previous_secret_until,
    w.send_secret, w.version,
    w.deleted_at is null and p.deleted_at is null and (w.is_active or d.event like 'test.%') as is_wanted,
    p.id as project_id, p.name as project_name, p.data_key
  from unnest($1::uuid[], $2::uuid[]) as tried (delivery_id, job_id)
    join webhook_deliveries d on d.id = tried.delivery_id and d.job_id = tried.job_id
    join outbox_events e on e.id = d.event_id
    join webhooks w on w.id = d.webhook_id
    join projects p on p.id = w.project_id`;

const loadedOf = (row: Row): LoadedTry => ({
  deliveryId: row.delivery_id,
  triesBefore: row.attempt,
  isWanted: row.is_wanted,
  name: row.event,
  event: {
    id: row.event_id,
    project_id: row.project_id,
    event: row.of_event,
    data: row.data ?? '',
    created_at: row.event_at,
  },
  isLarge: row.data === null,
  webhook: { ...row, id: row.webhook_id },
  version: row.version,
  project: { id: row.project_id, name: row.project_name, data_key: row.data_key },
});

/** What these tries need, in their order; null where the delivery is gone or waits for another try. */
export const loadTries = async (db: Queryable, tries: readonly TryRef[]): Promise<(LoadedTry | null)[]> => {
  const rows = await db.query<Row>(
    loadSql,
    [tries.map((each) => each.deliveryId), tries.map((each) => each.jobId)],
    'load-tries',
  );
  const found = new Map(rows.map((row) => [row.delivery_id, loadedOf(row)]));
  return tries.map(({ deliveryId }) => found.get(deliveryId) ?? null);
};
