import { randomBytes } from 'node:crypto';
import type { Sealer } from '#lib/secrets.ts';
import type { WebhookRow } from './types.ts';

const marker = 'whsec_';

/** A signing secret as Standard Webhooks writes them: `whsec_` and the base64 of 32 random bytes. */
export const makeSecret = (): string => `${marker}${randomBytes(32).toString('base64')}`;

/**
 * What is wrong with a secret that somebody brings, null when nothing is: 8 to 256 printable ASCII characters; what begins
 * with `whsec_` is a key in base64 of 24 to 64 bytes, since it signs decoded.
 */
export const faultOfSecret = (secret: string): string | null => {
  // A space is left out: it comes and goes with copying.
  if (!/^[\x21-\x7e]{8,256}$/.test(secret)) return 'must be 8 to 256 printable ASCII characters without spaces';
  if (!secret.startsWith(marker)) return null;
  const text = secret.slice(marker.length);
  const key = Buffer.from(text, 'base64');
  const isBase64 = key.toString('base64').replaceAll('=', '') === text.replace(/={1,2}$/, '');
  return isBase64 && key.length >= 24 && key.length <= 64
    ? null
    : 'what follows whsec_ must be the base64 of 24 to 64 bytes';
};

const part = (webhookId: string, what: 'secret' | 'url'): string => `webhook:${webhookId}:${what}`;

/** Old and new secrets are sealed alike, so that the row's sealed secret becomes its previous one as it is. */
export const sealSecret = (sealer: Sealer, webhookId: string, secret: string): Buffer =>
  sealer.seal(part(webhookId, 'secret'), secret);

/** For an address that is a secret itself, as those of chats are. */
export const sealUrl = (sealer: Sealer, webhookId: string, url: string): Buffer =>
  sealer.seal(part(webhookId, 'url'), url);

/** What a delivery is sent with. */
export interface WebhookSecrets {
  readonly url: string;
  readonly secret: string;
  /** Signs beside the new one for a while; null: no longer, or there is none. */
  readonly previousSecret: string | null;
}

type Sealed = Pick<
  WebhookRow,
  'id' | 'url' | 'url_sealed' | 'secret_sealed' | 'previous_secret_sealed' | 'previous_secret_until'
>;

const previousOf = (sealer: Sealer, row: Sealed, now: number): string | null => {
  const { previous_secret_sealed: sealed, previous_secret_until: until } = row;
  if (sealed === null || until === null || until.getTime() <= now) return null;
  return sealer.open(part(row.id, 'secret'), sealed);
};

/**
 * @param sealer the project's own
 * @throws {SecretError} when the row's secrets were not sealed for it
 */
export const webhookSecrets = (sealer: Sealer, row: Sealed, now = Date.now()): WebhookSecrets => ({
  url: row.url ?? (row.url_sealed === null ? '' : sealer.open(part(row.id, 'url'), row.url_sealed)),
  secret: sealer.open(part(row.id, 'secret'), row.secret_sealed),
  previousSecret: previousOf(sealer, row, now),
});
