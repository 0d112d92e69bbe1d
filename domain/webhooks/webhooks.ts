/*
 * Webhooks: an event of a project becomes one delivery for each webhook that subscribes. The way through this folder:
 * store.ts (rows), subscriptions.ts (which writes leave events), fan-out.ts (deliveries of an event), scheduler.ts
 * (rates, circuit breakers, due deliveries become jobs), attempts.ts (load, record, retry, disable), message.ts and
 * chat-message.ts (what is sent), secrets.ts. Beside it: deliveries.ts (lists, test messages), replay.ts, metrics.ts,
 * sweep.ts.
 */

import type { Plan } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { withinPatterns } from './subscriptions.ts';
import { makeSecret, sealSecret } from './secrets.ts';
import {
  type ListedWebhook,
  type WebhookFields,
  countForInsert,
  findWebhook,
  insertWebhook,
  lockWebhook,
  markWebhookDeleted,
  reopenThrottle,
  replaceSecret,
  replaceWebhook,
} from './store.ts';

export type { ListedWebhook, WebhookFields } from './store.ts';

/** A project whose secrets can be sealed. */
export interface OwnProject {
  readonly id: string;
  readonly sealer: Sealer;
}

/** Each event is a delivery for each of them that subscribes. */
const maxWebhooks: Readonly<Record<Plan, number>> = { free: 100, pro: 1000, enterprise: 20_000 };

/** The time for which the old secret signs beside the new one, by default. */
export const defaultOverlapSeconds = 24 * 3600;
export const maxOverlapSeconds = 30 * 24 * 3600;

/** @throws {ServiceError} `not_found` */
export const getWebhook = async (db: Queryable, projectId: string, id: string): Promise<ListedWebhook> => {
  const row = await findWebhook(db, projectId, id);
  if (row === undefined) throw notFound('webhook');
  return row;
};

const lockedWebhook = async (db: Queryable, projectId: string, id: string): Promise<ListedWebhook> => {
  const row = await lockWebhook(db, projectId, id);
  if (row === undefined) throw notFound('webhook');
  return row;
};

/**
 * @param wanted.secret left out: one is made
 * @returns the webhook with its secret, which is not shown again
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const createWebhook = async (
  db: Queryable,
  { id: projectId, sealer }: OwnProject,
  { secret = makeSecret(), ...fields }: WebhookFields & { readonly secret?: string | undefined },
): Promise<ListedWebhook & { secret: string }> => {
  const { total, plan } = await countForInsert(db, projectId);
  if (total >= maxWebhooks[plan]) {
    throw new ServiceError(
      'plan_limit_exceeded',
      `A project of the plan ${plan} has at most ${maxWebhooks[plan]} webhooks.`,
    );
  }
  const id = newId();
  const row = { id, project_id: projectId, secret_sealed: sealSecret(sealer, id, secret), ...fields };
  await withinPatterns(db, { projectId, events: fields.events }, () => insertWebhook(db, row));
  return { ...(await getWebhook(db, projectId, id)), secret };
};

/** Fields that are left out stay as they are. */
export type WebhookChange = { readonly [Field in keyof WebhookFields]?: WebhookFields[Field] | undefined } & {
  readonly secret?: string | undefined;
};

const changed = (row: ListedWebhook, change: WebhookChange): WebhookFields => ({
  name: change.name === undefined ? row.name : change.name,
  url: change.url ?? row.url ?? '',
  events: change.events ?? row.events,
  filter: change.filter === undefined ? row.filter : change.filter,
  send_secret: change.send_secret ?? row.send_secret,
  rate_per_second: change.rate_per_second ?? row.rate_per_second,
  is_active: change.is_active ?? row.is_active,
});

/**
 * A secret that is sent along goes only where its owner wants it: who changes that has to know it or to replace it.
 * @throws {ServiceError} `secret_required`
 */
const requireSecret = (row: ListedWebhook, fields: WebhookFields, { secret }: WebhookChange): void => {
  if (secret !== undefined || !fields.send_secret) return;
  if (row.send_secret && URL.parse(fields.url)?.origin === URL.parse(row.url ?? '')?.origin) return;
  const reason = row.send_secret ? 'With another scheme, host or port in the url' : 'To turn send_secret on';
  throw new ServiceError('secret_required', `${reason} the secret has to be given again.`, {
    details: [{ path: 'secret', message: 'is required, since deliveries carry it' }],
    hint: 'Send `secret` in the same call: the present one or a new one.',
  });
};

/**
 * Changes a webhook. One that is made active again, or gets another address, begins anew: earlier failures do not
 * count.
 * @throws {ServiceError} `not_found`, `secret_required`
 */
export const updateWebhook = async (
  db: Queryable,
  { id: projectId, sealer }: OwnProject,
  { id, change }: { readonly id: string; readonly change: WebhookChange },
): Promise<ListedWebhook> => {
  const row = await lockedWebhook(db, projectId, id);
  const fields = changed(row, change);
  requireSecret(row, fields, change);
  await withinPatterns(db, { projectId, events: change.events ?? [] }, () => replaceWebhook(db, id, fields));
  if (change.secret !== undefined)
    await replaceSecret(db, id, sealSecret(sealer, id, change.secret), defaultOverlapSeconds);
  if (fields.is_active && (!row.is_active || fields.url !== row.url)) await reopenThrottle(db, id);
  return getWebhook(db, projectId, id);
};

/**
 * A new secret; the old one signs beside it for a while, so that receivers can change over.
 * @param rotation.overlapSeconds 0: the old one, and one before it, sign nothing from now on
 * @returns the webhook with the secret, which is not shown again
 * @throws {ServiceError} `not_found`
 */
export const rotateSecret = async (
  db: Queryable,
  { id: projectId, sealer }: OwnProject,
  {
    id,
    secret = makeSecret(),
    overlapSeconds,
  }: { readonly id: string; readonly secret?: string | undefined; readonly overlapSeconds: number },
): Promise<ListedWebhook & { secret: string }> => {
  await lockedWebhook(db, projectId, id);
  await replaceSecret(db, id, sealSecret(sealer, id, secret), overlapSeconds);
  return { ...(await getWebhook(db, projectId, id)), secret };
};

/** Nothing more is sent to it but what is under way. @throws {ServiceError} `not_found` */
export const removeWebhook = async (db: Queryable, projectId: string, id: string): Promise<void> => {
  await lockedWebhook(db, projectId, id);
  await markWebhookDeleted(db, id);
};
