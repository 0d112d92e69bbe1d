import { systemActor } from '#domain/audit/actor.ts';
import type { DeliveryRow, WebhookKind } from '#domain/webhooks/store.ts';
import { makeSecret, sealSecret, sealUrl } from '#domain/webhooks/secrets.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import { type Sealer, openKeyRing } from '#lib/secrets.ts';
import type { TestPlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

type Where = Pick<TestPlatform, 'db' | 'config'>;

const server = '00000000-0000-7000-8000-000000000001';

/** A project's row and its key, with no database behind it. */
export interface BareProject {
  readonly id: string;
  readonly orgId: string;
  readonly sealer: Sealer;
}

export const addProject = async ({ db, config }: Where, plan = 'free'): Promise<BareProject> => {
  const [id, orgId] = [newId(), newOrgId()];
  const ring = openKeyRing(config.PLINTH_SECRET_KEYS);
  const dataKey = ring.newDataKey(id);
  await db.transaction(async (tx) => {
    await tx.query('insert into organizations (id, name) values ($1, $1)', [orgId]);
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       values ($1, $2, $3, $4, 'shop', 'p', $5, 'active', $2, $6)`,
      [id, newProjectRef(), orgId, server, plan, dataKey],
    );
  }, systemActor);
  return { id, orgId, sealer: ring.sealerFor(id, dataKey) };
};

export interface WebhookOptions {
  readonly url: string;
  readonly events?: readonly string[];
  readonly kind?: WebhookKind;
  readonly secret?: string;
  /** Replaced by `secret`, and still valid. */
  readonly previousSecret?: string;
  readonly sendSecret?: boolean;
  readonly rate?: number;
  readonly active?: boolean;
  /** Whether its receiver is known to be quick, as after a success; true unless said. */
  readonly quick?: boolean;
}

export interface TestWebhook {
  readonly id: string;
  readonly secret: string;
}

export const addWebhook = async (
  { db }: Where,
  { id: projectId, sealer }: BareProject,
  request: WebhookOptions,
): Promise<TestWebhook> => {
  const { url, kind = 'http', events = ['*'], secret = makeSecret(), previousSecret, rate = 1000 } = request;
  const id = newId();
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into webhooks (id, project_id, kind, name, url, url_sealed, events, secret_sealed, previous_secret_sealed,
           previous_secret_until, send_secret, rate_per_second, is_active)
         values ($1, $2, $3, 'orders', $4, $5, $6, $7, $8, now() + interval '1 day', $9, $10, $11)`,
        [
          id,
          projectId,
          kind,
          kind === 'http' ? url : null,
          kind === 'http' ? null : sealUrl(sealer, id, url),
          events,
          sealSecret(sealer, id, secret),
          previousSecret === undefined ? null : sealSecret(sealer, id, previousSecret),
          request.sendSecret ?? false,
          rate,
          request.active ?? true,
        ],
      ),
    systemActor,
  );
  await db.query('update webhook_throttles set is_quick = $2 where webhook_id = $1', [id, request.quick ?? true]);
  return { id, secret };
};

/** Writes events as their areas do. Answers their ids. */
export const emit = async (
  { db }: Where,
  projectId: string,
  event: string,
  data: readonly string[] = ['{}'],
): Promise<string[]> => {
  const ids = data.map(() => newId());
  await db.query(
    `insert into outbox_events (id, project_id, event, data)
     select id, $2, $3, data::json from unnest($1::uuid[], $4::text[]) as new (id, data)`,
    [ids, projectId, event, data],
  );
  return ids;
};

export const deliveriesOf = ({ db }: Where, webhookId: string): Promise<DeliveryRow[]> =>
  db.query<DeliveryRow>('select * from webhook_deliveries where webhook_id = $1 order by id', [webhookId]);

/** The deliveries of a webhook once all of them are as it says. */
export const deliveriesWhen = (
  where: Where,
  webhookId: string,
  { count = 1, fits }: { readonly count?: number; readonly fits: (row: DeliveryRow) => boolean },
): Promise<DeliveryRow[]> =>
  until(async () => {
    const rows = await deliveriesOf(where, webhookId);
    return rows.length === count && rows.every(fits) && rows;
  });

export const hasStatus =
  (status: DeliveryRow['status']) =>
  (row: DeliveryRow): boolean =>
    row.status === status && row.job_id === null;

/** Lets the time pass that a delivery waits for, its breaker's, too. */
export const hurry = async ({ db }: Where, webhookId: string): Promise<void> => {
  await db.query(
    `update webhook_deliveries set next_attempt_at = now() where webhook_id = $1 and next_attempt_at is not null`,
    [webhookId],
  );
  await db.query(
    'update webhook_throttles set closed_until = null, retry_after = null, next_at = now() where webhook_id = $1',
    [webhookId],
  );
};

export interface Throttle {
  readonly failures: number;
  readonly failing_since: Date | null;
  readonly failed_tries: number;
  readonly closed_until: Date | null;
  readonly retry_after: Date | null;
  readonly tokens: number;
  readonly next_at: Date | null;
  readonly slow_scope: string | null;
  readonly waits_since: Date | null;
}

export const throttleOf = async ({ db }: Where, webhookId: string): Promise<Throttle> => {
  const [throttle] = await db.query<Throttle & { webhook_id: string }>(
    'select * from webhook_throttles where webhook_id = $1',
    [webhookId],
  );
  if (throttle === undefined) throw new Error('there is no queue shard');
  return throttle;
};
