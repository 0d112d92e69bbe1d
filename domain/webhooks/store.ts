import { compileFilter } from '#domain/events/filter.ts';
import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';

/**
 * `http`: an address that the project names. `function`: a trigger (domain/functions/triggers.ts), which has neither an
 * address nor a secret. `listener`: the connection of somebody who listens (listeners.ts). The others are chats of its
 * integrations.
 */
export type WebhookKind = 'http' | 'slack' | 'discord' | 'function' | 'listener';

/** A receiver of a project's events. domain/webhooks/secrets.ts opens its secrets. */
export interface WebhookRow {
  readonly id: string;
  readonly project_id: string;
  readonly kind: WebhookKind;
  readonly name: string | null;
  /** Null where the address is a secret itself: then `url_sealed` holds it. */
  readonly url: string | null;
  readonly url_sealed: Buffer | null;
  readonly events: readonly string[];
  /** Which of these events it gets (domain/events/filter.ts); null: all. */
  readonly filter: string | null;
  readonly secret_sealed: Buffer;
  readonly previous_secret_sealed: Buffer | null;
  readonly previous_secret_until: Date | null;
  readonly send_secret: boolean;
  readonly rate_per_second: number;
  readonly is_active: boolean;
  /** Why the platform made it inactive. */
  readonly disabled_reason: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/**
 * `pending`: not tried yet. `failed`: the last try failed; `next_attempt_at` says when the next one is, null that there
 * is none. `exhausted`: every try failed. `skipped`: the webhook was inactive.
 */
export const deliveryStatuses = ['pending', 'success', 'failed', 'exhausted', 'skipped'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** One try of a delivery, as it is kept and shown. */
interface DeliveryAttempt {
  /** When it began, ISO 8601. */
  readonly at: string;
  /** Null: nobody answered. */
  readonly status_code: number | null;
  readonly error: string | null;
  readonly response_time_ms: number;
}

/** One event for one webhook. */
export interface DeliveryRow {
  readonly id: string;
  readonly webhook_id: string;
  readonly project_id: string;
  readonly event_id: string;
  /** As the webhook asked for it: `db.insert` or `table.users.INSERT`. */
  readonly event: string;
  readonly status: DeliveryStatus;
  /** The number of attempts. */
  readonly attempt: number;
  /** Tries before it was last asked for by hand. */
  readonly attempts_before: number;
  readonly next_attempt_at: Date | null;
  /** The attempt that waits or is in flight. */
  readonly job_id: string | null;
  readonly status_code: number | null;
  readonly response_time_ms: number | null;
  /** JSON text; without secrets. */
  readonly request_headers: string | null;
  /** Its first 64 KB. */
  readonly response_body: string | null;
  /** More than that was answered. */
  readonly response_truncated: boolean;
  /** Its last 50 attempts, the latest last. */
  readonly attempts: readonly DeliveryAttempt[];
  readonly error: string | null;
  readonly created_at: Date;
  readonly finished_at: Date | null;
}

/** An event as it waits in the control database. */
export interface EventRow {
  readonly id: string;
  readonly project_id: string;
  /** `table.users.INSERT` for writes to tables. */
  readonly event: string;
  /** JSON text; of writes to tables `{"row":…,"old":…}`, `old` only on update. */
  readonly data: string;
  readonly created_at: Date;
}

/**
 * Settings for transactions that read a few rows of large tables. A prepared statement keeps its plan until the table
 * is analyzed: one that was made while the table was small, or where many rows might match, scans all of it. With
 * 300,000 rows waiting for one webhook each poll of any other took 70 ms, with a million a second. Bitmap scans are off
 * because they revisit dead tuples, which an index scan marks (0.6 ms of each poll of a busy webhook, of which a batch
 * has 40). With one way left the statement is planned once: for two or three rows it was planned each time, which took
 * longer than the rest.
 */
export const byIndex = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const;

/** A webhook with how its deliveries get on. */
export interface ListedWebhook extends WebhookRow {
  /** Since when every try failed. */
  readonly failing_since: Date | null;
  /**
   * Nothing is tried before: the receiver asked for a pause, or fails all the time. Null: that is over, or never was.
   */
  readonly closed_until: Date | null;
}

/** The fields that its owner chooses. */
export interface WebhookFields {
  readonly name: string | null;
  readonly url: string;
  readonly events: readonly string[];
  readonly filter: string | null;
  readonly send_secret: boolean;
  readonly rate_per_second: number;
  readonly is_active: boolean;
}

const listedColumns = `w.id, w.project_id, w.kind, w.name, w.url, w.url_sealed, w.events, w.filter, w.secret_sealed,
  w.previous_secret_sealed, w.previous_secret_until, w.send_secret, w.rate_per_second, w.is_active, w.disabled_reason,
  w.created_at, w.updated_at, l.failing_since, case when greatest(l.closed_until, l.retry_after) > now()
    then greatest(l.closed_until, l.retry_after) end as closed_until`;

// Chats are integrations, and triggers belong to functions: nothing of them is found here.
const presentWebhooks = `webhooks w where w.project_id = $1 and w.kind = 'http' and w.deleted_at is null`;
const withThrottles = presentWebhooks.replace(
  'webhooks w',
  'webhooks w join webhook_throttles l on l.webhook_id = w.id',
);

/** Counts a project's webhooks; until the transaction ends nobody else adds one, and its plan stays as it is. */
export const countForInsert = async (
  db: Queryable,
  projectId: string,
): Promise<{ readonly total: number; readonly plan: Plan }> => {
  const { plan } = await one(
    db.query<{ plan: Plan }>('select plan from projects where id = $1 for no key update', [projectId]),
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from ${presentWebhooks}`, [projectId]),
  );
  return { total, plan };
};

interface NewWebhook extends WebhookFields {
  readonly id: string;
  readonly project_id: string;
  readonly secret_sealed: Buffer;
}

/** A filter as its three columns. */
export const filterColumns = (filter: string | null): readonly (string | null)[] => {
  if (filter === null) return [null, null, null];
  const { table, other } = compileFilter(filter);
  return [filter, table, other];
};

export const insertWebhook = async (db: Queryable, webhook: NewWebhook): Promise<void> => {
  await db.query(
    `insert into webhooks (id, project_id, name, url, events, secret_sealed, send_secret, rate_per_second, is_active,
       filter, filter_table, filter_other)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::jsonpath, $12::text::jsonpath)`,
    [
      webhook.id,
      webhook.project_id,
      webhook.name,
      webhook.url,
      webhook.events,
      webhook.secret_sealed,
      webhook.send_secret,
      webhook.rate_per_second,
      webhook.is_active,
      ...filterColumns(webhook.filter),
    ],
  );
};

export const findWebhook = (db: Queryable, projectId: string, id: string): Promise<ListedWebhook | undefined> =>
  maybeOne(
    db.query<ListedWebhook>(
      `select ${listedColumns} from ${withThrottles} and w.id = $2`,
      [projectId, id],
      'find-webhook',
    ),
  );

/**
 * Holds back other changes of it and its deliveries until the transaction ends, which is to be soon. Its throttle is
 * locked first, as by whoever delivers.
 */
export const lockWebhook = async (db: Queryable, projectId: string, id: string): Promise<ListedWebhook | undefined> => {
  const present = await findWebhook(db, projectId, id);
  if (present === undefined) return undefined;
  await db.query('select from webhook_throttles where webhook_id = $1 for no key update', [id]);
  await db.query(`select from ${presentWebhooks} and w.id = $2 for no key update`, [projectId, id]);
  return findWebhook(db, projectId, id);
};

export const listWebhooks = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ webhooks: ListedWebhook[]; total: number }> => {
  const webhooks = await db.query<ListedWebhook>(
    `select ${listedColumns} from ${withThrottles} order by w.created_at, w.id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from ${presentWebhooks}`, [projectId]),
  );
  return { webhooks, total };
};

/** Why the platform made it inactive is forgotten once its owner decides. */
export const replaceWebhook = async (db: Queryable, id: string, fields: WebhookFields): Promise<void> => {
  await db.query(
    `update webhooks set name = $2, url = $3, events = $4, send_secret = $5, rate_per_second = $6,
       disabled_reason = case when is_active = $7 then disabled_reason end, is_active = $7, updated_at = now(),
       filter = $8, filter_table = $9::text::jsonpath, filter_other = $10::text::jsonpath
     where id = $1`,
    [
      id,
      fields.name,
      fields.url,
      fields.events,
      fields.send_secret,
      fields.rate_per_second,
      fields.is_active,
      ...filterColumns(fields.filter),
    ],
  );
};

/** The old secret signs beside the new one for so many hours. */
export const replaceSecret = async (db: Queryable, id: string, sealed: Buffer, seconds: number): Promise<void> => {
  await db.query(
    `update webhooks set previous_secret_sealed = case when $3::int > 0 then secret_sealed end, secret_sealed = $2,
       previous_secret_until = case when $3::int > 0 then now() + make_interval(secs => $3::int) end, updated_at = now()
     where id = $1`,
    [id, sealed, seconds],
  );
};

/** Its rows go in steps, later. */
export const markWebhookDeleted = async (db: Queryable, id: string): Promise<void> => {
  await db.query('update webhooks set deleted_at = now(), updated_at = now() where id = $1', [id]);
};

/**
 * Its owner wants something sent now, whatever failed before; what the receiver asked for holds. The throttle must be
 * locked.
 */
export const reopenBreaker = async (db: Queryable, id: string): Promise<void> => {
  await db.query('update webhook_throttles set closed_until = null, next_at = now() where webhook_id = $1', [id]);
};

/** A fresh start: earlier failures no longer count, and waiting deliveries are due now. */
export const reopenThrottle = async (db: Queryable, id: string): Promise<void> => {
  await db.query(
    `update webhook_throttles set failures = 0, failing_since = null, failed_tries = 0, failed_at = null,
       closed_until = null, retry_after = null, is_quick = false, next_at = now()
     where webhook_id = $1`,
    [id],
  );
};
