import { createHmac } from 'node:crypto';
import type { Projects } from '#domain/projects/projects.ts';
import { findProject } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Egress, EgressResponse } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type Sealer, SecretError } from '#lib/secrets.ts';
import type { LoadedTry } from './attempts.ts';
import { discordPauseSeconds, messageOf } from './chat-message.ts';
import { type SealedWebhook, type WebhookSecrets, hideSecrets, webhookSecrets } from './secrets.ts';
import type { EventRow } from './store.ts';

/** The data of an event as the JSON text that it was written as, so that numbers stay exact. */
interface EventParts {
  readonly data: string;
  /** The row before an update; null: there is none. */
  readonly old: string | null;
}

const [quote, backslash, open, close] = [0x22, 0x5c, 0x7b, 0x7d];

/** Past the quote that ends the string that begins at `at`. */
const afterString = (text: string, at: number): number => {
  let end = text.indexOf('"', at + 1);
  const isEscaped = (): boolean => {
    let before = end - 1;
    while (text.charCodeAt(before) === backslash) before -= 1;
    return (end - before) % 2 === 0;
  };
  while (end > 0 && isEscaped()) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end + 1;
};

/** Past the object that begins at `at`. Not by a regular expression: strings of megabytes outgrow its stack. */
const afterObject = (text: string, at: number): number => {
  let depth = 0;
  let place = at;
  while (place < text.length) {
    const code = text.charCodeAt(place);
    if (code === quote) {
      place = afterString(text, place);
      continue;
    }
    place += 1;
    if (code === open) depth += 1;
    if (code === close) depth -= 1;
    if (depth === 0) return place;
  }
  return place;
};

const rowStart = '{"row":';
const oldStart = ',"old":';

/**
 * Writes to tables are stored as `{"row":…,"old":…}` (domain/events/outbox.ts), and the row is the event's data. Split
 * here and not by the server, whose operators on json refuse \\u0000.
 */
const partsOf = ({ event, data }: Pick<EventRow, 'event' | 'data'>): EventParts => {
  if (!event.startsWith('table.') || !data.startsWith(rowStart)) return { data, old: null };
  // TRUNCATE has no rows.
  if (data === `${rowStart}null}`) return { data: 'null', old: null };
  const end = afterObject(data, rowStart.length);
  const row = data.slice(rowStart.length, end);
  return { data: row, old: data.startsWith(oldStart, end) ? data.slice(end + oldStart.length, -1) : null };
};

/** Larger data are left out of a delivery, which carries a link to them instead. */
export const maxDataBytes = 256 * 1024;

/**
 * The body of a delivery, put together as text, since parsing would change numbers.
 * @param name of the event as the webhook asked for it
 * @param dataUrl stands instead of the data where these are larger than `maxDataBytes`; null: the data are sent
 */
export const bodyOf = (event: EventRow, name: string, dataUrl: string | null): Buffer => {
  const { id, project_id: projectId, created_at: createdAt } = event;
  const head = JSON.stringify({ id, event: name, project_id: projectId, timestamp: createdAt.toISOString() });
  if (dataUrl !== null) return Buffer.from(`${head.slice(0, -1)},"data_url":${JSON.stringify(dataUrl)}}`);
  const { data, old } = partsOf(event);
  return Buffer.from(`${head.slice(0, -1)},"data":${data}${old === null ? '' : `,"old":${old}`}}`);
};

/** The link to an event's data works that long. */
const dataUrlHours = 24;

/** A link leads to what a delivery would have under `data`, or under `old`. */
export const dataParts = ['data', 'old'] as const;
type DataPart = (typeof dataParts)[number];

const about = (eventId: string): string => `event:${eventId}:data`;

interface DataUrlDeps {
  /** The project's. */
  readonly sealer: Sealer;
  /** The platform's own address, without a slash at the end. */
  readonly baseUrl: string;
}

/** The project whose data a link leads to, and the webhook: the link ends with it. */
export interface DataLink {
  readonly eventId: string;
  readonly webhookId: string;
}

/** A link to the data of an event that is too large for a delivery; it needs no credential, and works for 24 hours. */
export const dataUrlOf = (
  { sealer, baseUrl }: DataUrlDeps,
  { eventId, webhookId }: DataLink,
  now = Date.now(),
): string => {
  const content = `${now + dataUrlHours * 3_600_000} ${webhookId}`;
  const token = sealer.seal(about(eventId), content).toString('base64url');
  return `${baseUrl}/hooks/events/${eventId}/data?token=${token}`;
};

/** Null: the token is not of this event. */
const openToken = (sealer: Sealer, eventId: string, token: string): { expiry: number; webhookId: string } | null => {
  try {
    const [expiry = '', webhookId = ''] = sealer.open(about(eventId), Buffer.from(token, 'base64url')).split(' ');
    return { expiry: Number(expiry), webhookId };
  } catch (error) {
    if (error instanceof SecretError) return null;
    throw error;
  }
};

const isThere = async (db: Queryable, webhookId: string): Promise<boolean> =>
  (await db.query('select from webhooks where id = $1 and deleted_at is null', [webhookId])).length > 0;

interface EventDataRequest {
  readonly eventId: string;
  readonly token: string;
  readonly part: DataPart;
}

/**
 * The data that a link of `dataUrlOf` leads to, as exact JSON text.
 * @throws {ServiceError} `not_found` when there is no such event, the token is not its own, or its webhook was deleted;
 * `expired`
 */
export const readEventData = async (
  { db, projects }: { readonly db: Queryable; readonly projects: Pick<Projects, 'sealer'> },
  { eventId, token, part }: EventDataRequest,
  now = Date.now(),
): Promise<string> => {
  const event = await maybeOne(
    db.query<{ project_id: string }>('select project_id from outbox_events where id = $1', [eventId]),
  );
  const project = event && (await findProject(db, event.project_id));
  if (project === undefined || project.deleted_at !== null) throw notFound('event');
  const opened = openToken(projects.sealer(project), eventId, token);
  if (opened === null || !(await isThere(db, opened.webhookId))) throw notFound('event');
  if (opened.expiry <= now) {
    throw new ServiceError('expired', `The link to this event's data worked for ${dataUrlHours} hours.`, {
      hint: 'Have the event delivered again: the delivery brings a new one.',
    });
  }
  // Read after the token was checked: it can have megabytes.
  const row = await maybeOne(
    db.query<Pick<EventRow, 'event' | 'data'>>('select event, data::text as data from outbox_events where id = $1', [
      eventId,
    ]),
  );
  const text = row && partsOf(row)[part];
  if (text === undefined || text === null) throw notFound('data');
  return text;
};

interface Signing {
  /** The event's: the same for each try. */
  readonly id: string;
  /** When the try is made, in seconds. */
  readonly timestamp: number;
  readonly body: Buffer;
  readonly secret: string;
  /** Signs beside the new one for a while. */
  readonly previousSecret: string | null;
}

const marker = 'whsec_';

/** Standard Webhooks: what follows `whsec_` is the key in base64; any other secret is the key as it is. */
const keyOf = (secret: string): Buffer =>
  secret.startsWith(marker) ? Buffer.from(secret.slice(marker.length), 'base64') : Buffer.from(secret);

const standardSignature = (secret: string, { id, timestamp, body }: Signing): string =>
  `v1,${createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;

/**
 * The headers by which a receiver knows that a delivery is ours: one over the body with the secret as it is written,
 * and those of Standard Webhooks, signed with the secret before the last one, too, while that is valid.
 */
export const signatureHeaders = (signing: Signing): Record<string, string> => {
  const { id, timestamp, body, secret, previousSecret } = signing;
  const secrets = previousSecret === null ? [secret] : [secret, previousSecret];
  return {
    'X-Webhook-Signature': createHmac('sha256', secret).update(body).digest('hex'),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': secrets.map((each) => standardSignature(each, signing)).join(' '),
  };
};

/** The request of one attempt. */
export interface Message {
  readonly url: string;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** The headers that are recorded, as JSON text: without those that are secrets themselves. */
  readonly shownHeaders: string;
  /** Secrets that the receiver knows; they are removed from its answer before that is stored. */
  readonly secrets: readonly string[];
  /** How long the receiver asks to be left alone, in seconds, by the body of a 429: of those who say it there. */
  readonly pauseSeconds?: (body: string) => number | null;
}

interface MessageDeps {
  readonly sealer: Sealer;
  /** The platform's own address, for links. */
  readonly baseUrl: string;
  /** The platform's version, for `User-Agent`. */
  readonly version: string;
}

/** Tables may be called anything; a header holds ASCII. */
const headerOf = (name: string): string => name.replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent);

const signed = (
  { event, name, isLarge, webhook }: Omit<ListenedEvent, 'isPast'>,
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

/** The path of a chat's address is its secret. */
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
 * The request of one attempt to a webhook or a chat, made when it is sent, so that no secret waits in a queue.
 * @throws {SecretError} when the webhook's secrets cannot be opened
 */
export const makeMessage = (loaded: LoadedTry, deps: MessageDeps): Message => {
  const secrets = webhookSecrets(deps.sealer, loaded.webhook);
  const isSigned = loaded.webhook.kind === 'http' || loaded.webhook.kind === 'listener';
  return isSigned ? signed(loaded, deps, secrets) : chatted(loaded, deps, secrets);
};

/** A delivery to a listener. */
export interface ListenedEvent extends Pick<LoadedTry, 'name' | 'event' | 'isLarge'> {
  readonly webhook: SealedWebhook & Pick<LoadedTry['webhook'], 'send_secret'>;
  readonly isPast: boolean;
}

/** A delivery to a listener as the event of a stream: the request that a webhook would have got. */
export const makeListened = ({ isPast, ...listened }: ListenedEvent, deps: MessageDeps): string => {
  const { body, headers } = signed(listened, deps, webhookSecrets(deps.sealer, listened.webhook));
  const data = { id: listened.event.id, event: listened.name, replayed: isPast, headers, body: body.toString() };
  return `event: delivery\ndata: ${JSON.stringify(data)}\n\n`;
};

/** The outcome of a request. */
export interface Answered {
  /** Null: nobody answered, or nothing was sent. */
  readonly statusCode: number | null;
  readonly responseTimeMs: number;
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
  /** It is not tried again, which says nothing of the receiver; left out: it may be. */
  readonly isFinal?: boolean;
}

/** The outcome of an attempt that no receiver has answered. */
export const notAnswered = (error: string): Answered => ({
  statusCode: null,
  responseTimeMs: 0,
  responseBody: null,
  error,
  notBefore: null,
  isGone: false,
});

interface SendOptions {
  readonly egress: Pick<Egress, 'fetch'>;
  /** From the call to the last byte of the answer that is read. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const maxResponseBytes = 64 * 1024;

/** A column of text holds no NUL. */
const storable = (body: Buffer): string => body.toString().replaceAll('\0', '\uFFFD');

const faultOf = (status: number): string | null => {
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400) return `The receiver answered ${status}: redirects are not followed.`;
  return `The receiver answered ${status}.`;
};

const maxRetryAfterMs = 24 * 3600 * 1000;

/**
 * Until when a receiver asks to be left alone (`Retry-After`, in seconds or as a date), at most a day; null when it
 * does not, or says it in no way that there is.
 * @param now in ms
 */
export const retryAfter = (header: string | string[] | undefined, now: number): Date | null => {
  const text = (Array.isArray(header) ? header[0] : header)?.trim() ?? '';
  const at = /^\d{1,15}$/.test(text) ? now + Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(at) || at <= now) return null;
  return new Date(Math.min(at, now + maxRetryAfterMs));
};

const mayRequestPause = new Set([429, 503]);

/** The later of what its headers and its body say. */
const pausedUntil = ({ status, headers, body }: EgressResponse, { pauseSeconds }: Message): Date | null => {
  if (!mayRequestPause.has(status)) return null;
  const now = Date.now();
  const byHeader = retryAfter(headers['retry-after'], now);
  const seconds = status === 429 ? (pauseSeconds?.(body.toString()) ?? 0) : 0;
  const byBody = now + seconds * 1000;
  return seconds > 0 && byBody > (byHeader?.getTime() ?? 0) ? new Date(byBody) : byHeader;
};

const answeredOf = (response: EgressResponse, message: Message, responseTimeMs: number): Answered => ({
  statusCode: response.status,
  responseTimeMs,
  responseBody: hideSecrets(storable(response.body), message.secrets, { isCut: response.truncated }),
  responseTruncated: response.truncated,
  error: faultOf(response.status),
  notBefore: pausedUntil(response, message),
  isGone: response.status === 410,
});

/**
 * Sends one message; whatever becomes of it is an answer.
 * @throws what `signal` was aborted with
 */
export const send = async (message: Message, { egress, timeoutMs, signal }: SendOptions): Promise<Answered> => {
  const { url, body, headers } = message;
  const began = performance.now();
  const took = (): number => performance.now() - began;
  try {
    const response = await egress.fetch(url, {
      for: 'platform',
      method: 'POST',
      headers,
      body,
      timeoutMs,
      maxBytes: maxResponseBytes,
      signal,
    });
    return answeredOf(response, message, took());
  } catch (error) {
    if (!(error instanceof EgressFailed || error instanceof EgressRefused)) throw error;
    return { ...notAnswered(hideSecrets(error.message, message.secrets)), responseTimeMs: took() };
  }
};
