import { discordPauseSeconds } from '#domain/integrations/messages/discord.ts';
import { messageOf } from '#domain/integrations/messages/message.ts';
import type { Sealer } from '#lib/secrets.ts';
import { bodyOf } from './body.ts';
import { dataUrlOf } from './event-data.ts';
import type { LoadedTry } from './load.ts';
import { type WebhookSecrets, webhookSecrets } from './secrets.ts';
import { signatureHeaders } from './signature.ts';

/** What goes out for one try. */
export interface Message {
  readonly url: string;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** The headers that are recorded, as JSON text: without those that are secrets themselves. */
  readonly shownHeaders: string;
  /** What the receiver knows and nobody else is to read, should it repeat it. */
  readonly secrets: readonly string[];
  /** How long the receiver asks to be left alone, in seconds, by the body of a 429: of those who say it there. */
  readonly pauseSeconds?: (body: string) => number | null;
}

export interface MessageDeps {
  readonly sealer: Sealer;
  /** The platform's own address, for links. */
  readonly baseUrl: string;
  /** Of the platform, for `User-Agent`. */
  readonly version: string;
}

/** Tables may be called anything; a header holds ASCII. */
const headerOf = (name: string): string => name.replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent);

const signed = (
  { event, name, isLarge, webhook }: LoadedTry,
  { sealer, baseUrl, version }: MessageDeps,
  secrets: WebhookSecrets,
): Message => {
  const body = bodyOf(
    event,
    name,
    isLarge ? dataUrlOf({ sealer, baseUrl }, { eventId: event.id, webhookId: webhook.id }) : null,
  );
  const shown = {
    'Content-Type': 'application/json',
    'User-Agent': `plinth-webhooks/${version}`,
    'X-Webhook-Event': headerOf(name),
    ...signatureHeaders({ id: event.id, timestamp: Math.floor(Date.now() / 1000), body, ...secrets }),
  };
  const headers = webhook.send_secret ? { ...shown, 'X-Webhook-Secret': secrets.secret } : shown;
  const known = secrets.previousSecret === null ? [secrets.secret] : [secrets.secret, secrets.previousSecret];
  return { url: secrets.url, body, headers, shownHeaders: JSON.stringify(shown), secrets: known };
};

/** Of a chat's address it is the secret. */
const pathOf = (url: string): string => {
  const { pathname = '', search = '' } = URL.parse(url) ?? {};
  return pathname + search;
};

const chatted = (
  { event, isLarge, project, webhook }: LoadedTry,
  { version }: MessageDeps,
  { url }: WebhookSecrets,
): Message => {
  const kind = webhook.kind === 'slack' ? 'slack' : 'discord';
  const { body, contentType } = messageOf(kind, {
    event: event.event,
    project: project.name,
    timestamp: event.created_at,
    data: isLarge ? null : event.data,
  });
  const headers = { 'Content-Type': contentType, 'User-Agent': `plinth-webhooks/${version}` };
  return {
    url,
    body: Buffer.from(body),
    headers,
    shownHeaders: JSON.stringify(headers),
    secrets: [url, pathOf(url)],
    ...(kind === 'discord' && { pauseSeconds: discordPauseSeconds }),
  };
};

/**
 * What a webhook or a chat is sent for one try: made when it is sent, so that nothing of it waits anywhere.
 * @throws {SecretError} when the webhook's secrets cannot be opened
 */
export const makeMessage = (loaded: LoadedTry, deps: MessageDeps): Message => {
  const secrets = webhookSecrets(deps.sealer, loaded.webhook);
  return loaded.webhook.kind === 'http' ? signed(loaded, deps, secrets) : chatted(loaded, deps, secrets);
};
