import type { Project } from '#domain/projects/store.ts';
import { makeSecret, sealSecret, sealUrl } from '#domain/webhooks/secrets.ts';
import { markWebhookDeleted, reopenThrottle } from '#domain/webhooks/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { ChatProvider, ConfigOf } from './providers.ts';

/**
 * The rates that they accept: Slack one message a second (docs.slack.dev, "Rate limits"), Discord 30 a minute and
 * channel with bursts (a 429 tells when it was too much).
 */
const ratePerSecond: Readonly<Record<ChatProvider, number>> = { slack: 1, discord: 2 };

export interface ChatOf {
  readonly project: Pick<Project, 'id'>;
  readonly kind: ChatProvider;
}

/** The webhook of a project's chat. */
export const findChat = (db: Queryable, { project, kind }: ChatOf): Promise<{ id: string } | undefined> =>
  maybeOne(
    db.query<{ id: string }>('select id from webhooks where project_id = $1 and kind = $2 and deleted_at is null', [
      project.id,
      kind,
    ]),
  );

/** Its throttle is locked first, as by whoever delivers. */
const lockChat = async (db: Queryable, of: ChatOf): Promise<{ id: string } | undefined> => {
  const present = await findChat(db, of);
  if (present === undefined) return undefined;
  await db.query('select from webhook_throttles where webhook_id = $1 for no key update', [present.id]);
  return present;
};

const insertChat = async (
  db: Queryable,
  { project, kind }: ChatOf,
  { sealer, config, isActive }: ChatIntegrationRequest,
): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into webhooks (id, project_id, kind, url_sealed, events, secret_sealed, rate_per_second, is_active)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      id,
      project.id,
      kind,
      sealUrl(sealer, id, config.webhook_url),
      config.events,
      sealSecret(sealer, id, makeSecret()),
      ratePerSecond[kind],
      isActive,
    ],
  );
  return id;
};

export interface ChatIntegrationRequest {
  readonly sealer: Sealer;
  readonly config: ConfigOf<ChatProvider>;
  readonly isActive: boolean;
}

/**
 * Makes the webhook of a chat what its integration says, within the caller's transaction.
 * @returns its id: when the change is committed, the project's subscriptions are to be set and its throttle pumped
 */
export const saveChat = async (db: Queryable, of: ChatOf, request: ChatIntegrationRequest): Promise<string> => {
  const present = await lockChat(db, of);
  if (present === undefined) return insertChat(db, of, request);
  const { sealer, config, isActive } = request;
  await db.query(
    `update webhooks set url_sealed = $2, events = $3, is_active = $4, disabled_reason = null, updated_at = now()
     where id = $1`,
    [present.id, sealUrl(sealer, present.id, config.webhook_url), config.events, isActive],
  );
  // Earlier failures say nothing of a new address, nor of one that was activated again.
  await reopenThrottle(db, present.id);
  return present.id;
};

/** @returns the webhook's id; undefined when there is none */
export const setChatActive = async (db: Queryable, of: ChatOf, isActive: boolean): Promise<string | undefined> => {
  const present = await lockChat(db, of);
  if (present === undefined) return undefined;
  await db.query('update webhooks set is_active = $2, disabled_reason = null, updated_at = now() where id = $1', [
    present.id,
    isActive,
  ]);
  if (isActive) await reopenThrottle(db, present.id);
  return present.id;
};

/** Its deliveries go in steps, as those of any webhook. */
export const removeChat = async (db: Queryable, of: ChatOf): Promise<void> => {
  const present = await lockChat(db, of);
  if (present !== undefined) await markWebhookDeleted(db, present.id);
};
