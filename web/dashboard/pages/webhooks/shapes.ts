import type { Operations } from '../../client/types.ts';

export type Webhook = Operations['GET /projects/{project_id}/integrations/webhooks/{webhook_id}']['answer'];
export type Delivery =
  Operations['GET /projects/{project_id}/integrations/webhooks/{webhook_id}/deliveries/{did}']['answer'];
export type NewWebhook = Operations['POST /projects/{project_id}/integrations/webhooks']['body'];
export type DeliveryStatus = Delivery['status'];

export const deliveryStatuses: readonly DeliveryStatus[] = ['pending', 'success', 'failed', 'exhausted', 'skipped'];

/** The meaning of each status, for people who are new to it. */
export const deliveryTexts: Readonly<Record<DeliveryStatus, string>> = {
  pending: 'waits for its attempt',
  success: 'the receiver took it',
  failed: 'the last attempt failed',
  exhausted: 'every attempt failed',
  skipped: 'not sent: the webhook was inactive',
};

export const deliveryClass = (status: DeliveryStatus): string => {
  if (status === 'success') return 'good';
  return status === 'failed' || status === 'exhausted' ? 'bad' : '';
};

/** Whether and why nothing is sent just now, in words. */
export const stateOf = (webhook: Webhook): { readonly text: string; readonly tone: '' | 'good' | 'warn' | 'bad' } => {
  if (!webhook.is_active)
    return webhook.disabled_reason === null
      ? { text: 'inactive', tone: '' }
      : { text: `turned off by the platform: ${webhook.disabled_reason}`, tone: 'bad' };
  if (webhook.paused_until !== null && Date.parse(webhook.paused_until) > Date.now())
    return { text: `paused until ${new Date(webhook.paused_until).toLocaleString()}, since it failed`, tone: 'warn' };
  if (webhook.failing_since !== null)
    return { text: `failing since ${new Date(webhook.failing_since).toLocaleString()}`, tone: 'bad' };
  return { text: 'active', tone: 'good' };
};

/** Names of events out of a field: one a line, or with commas between them. */
export const eventsIn = (text: string): string[] =>
  text
    .split(/[\n,]+/)
    .map((event) => event.trim())
    .filter((event) => event !== '');
