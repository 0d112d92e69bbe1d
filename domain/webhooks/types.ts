/** `http`: an address that the project names. The others are chats of its integrations. */
export type WebhookKind = 'http' | 'slack' | 'discord';

/** Who is told of a project's events. Secrets stay sealed: domain/webhooks/secrets.ts opens them. */
export interface WebhookRow {
  readonly id: string;
  readonly project_id: string;
  readonly kind: WebhookKind;
  readonly name: string | null;
  /** Null where the address is a secret itself: then `url_sealed` holds it. */
  readonly url: string | null;
  readonly url_sealed: Buffer | null;
  readonly events: readonly string[];
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
 * `pending`: not tried yet. `failed`: the last try failed; `next_attempt_at` says when the next one is, null that there is
 * none. `exhausted`: every try failed. `skipped`: the webhook was inactive.
 */
export const deliveryStatuses = ['pending', 'success', 'failed', 'exhausted', 'skipped'] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

/** One try of a delivery, as it is kept and shown. */
export interface DeliveryAttempt {
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
  /** Counts the tries. */
  readonly attempt: number;
  /** Tries before it was last asked for by hand. */
  readonly attempts_before: number;
  readonly next_attempt_at: Date | null;
  /** The try that waits for its turn or is under way. */
  readonly job_id: string | null;
  readonly status_code: number | null;
  readonly response_time_ms: number | null;
  /** JSON text; without secrets. */
  readonly request_headers: string | null;
  /** Its first 64 KB. */
  readonly response_body: string | null;
  /** More than that was answered. */
  readonly response_truncated: boolean;
  /** Its last 50 tries, the latest last. */
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

/** What became of one try. */
export interface Attempted {
  readonly deliveryId: string;
  readonly jobId: string;
  /** Null: nobody answered, or nothing was sent. */
  readonly statusCode: number | null;
  readonly responseTimeMs: number;
  /** JSON text, without secrets. */
  readonly requestHeaders: string;
  /** Its first 64 KB, as text. */
  readonly responseBody: string | null;
  /** More than that was answered; left out: it was not. */
  readonly responseTruncated?: boolean;
  /** Null when it was delivered; in words for the webhook's owner. */
  readonly error: string | null;
  /** When the receiver asked to be left alone until then (`Retry-After`). */
  readonly notBefore: Date | null;
  /** The receiver is gone for good (410). */
  readonly isGone: boolean;
}
