import { randomBytes } from 'node:crypto';
import type { Sealer } from '#lib/secrets.ts';
import type { WebhookRow } from './store.ts';

const marker = 'whsec_';

/** A signing secret as Standard Webhooks writes them: `whsec_` and the base64 of 32 random bytes. */
export const makeSecret = (): string => `${marker}${randomBytes(32).toString('base64')}`;

/**
 * The fault of a secret that an owner brings, or null. It has 8 to 256 printable ASCII characters; one that begins
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

/** The opened address and secrets of a webhook. */
export interface WebhookSecrets {
  readonly url: string;
  readonly secret: string;
  /** Signs beside the new one for a while; null: no longer, or there is none. */
  readonly previousSecret: string | null;
}

/** A webhook with the secrets that a delivery needs. */
export type SealedWebhook = Pick<
  WebhookRow,
  'id' | 'url' | 'url_sealed' | 'secret_sealed' | 'previous_secret_sealed' | 'previous_secret_until'
>;

const previousOf = (sealer: Sealer, row: SealedWebhook, now: number): string | null => {
  const { previous_secret_sealed: sealed, previous_secret_until: until } = row;
  if (sealed === null || until === null || until.getTime() <= now) return null;
  return sealer.open(part(row.id, 'secret'), sealed);
};

/**
 * @param sealer the project's own
 * @throws {SecretError} when the row's secrets were not sealed for it
 */
export const webhookSecrets = (sealer: Sealer, row: SealedWebhook, now = Date.now()): WebhookSecrets => ({
  url: row.url ?? (row.url_sealed === null ? '' : sealer.open(part(row.id, 'url'), row.url_sealed)),
  secret: sealer.open(part(row.id, 'secret'), row.secret_sealed),
  previousSecret: previousOf(sealer, row, now),
});

/** Stands where a secret stood. */
const hidden = '••••';

const withoutPadding = (base64: string): string => base64.replace(/=+$/, '');

/** As one writes bytes; base64 without its padding, so that either is found. */
const writings = (bytes: Buffer): string[] => {
  const hex = bytes.toString('hex');
  return [hex, hex.toUpperCase(), withoutPadding(bytes.toString('base64')), bytes.toString('base64url')];
};

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** A secret as it is sent, what signs of it (behind `whsec_`), and how a receiver may write either down. */
const formsOf = (secret: string): string[] => {
  const marker = /^whsec_/.exec(secret)?.[0] ?? '';
  const key = secret.slice(marker.length);
  const decoded = marker === '' ? [] : writings(Buffer.from(key, 'base64'));
  const plain = [secret, withoutPadding(key)];
  // Some write a slash with a backslash in JSON.
  const escaped = plain.flatMap((text) => [
    inJson(text),
    inJson(text).replaceAll('/', String.raw`\/`),
    encodeURIComponent(text),
  ]);
  return [...plain, ...escaped, ...writings(Buffer.from(secret)), ...decoded];
};

/** As domain/webhooks/secrets.ts takes them. */
const minSecretLength = 8;
/** More characters than these of a secret that is cut off are hidden, too. */
const maxLeft = 4;

/** Removes the beginning of a secret at the end of a text that was cut off there. */
const withoutBeginning = (text: string, forms: readonly string[]): string => {
  for (const form of forms) {
    for (let length = form.length - 1; length > maxLeft; length--) {
      if (text.endsWith(form.slice(0, length))) return text.slice(0, -length) + hidden;
    }
  }
  return text;
};

/**
 * Hides the secrets that a receiver knows in its answer: repeated ones would be stored in plain text, for everyone who
 * may read deliveries.
 * @param isCut whether the text goes on, so that a secret may be at its end in part
 */
export const hideSecrets = (
  text: string,
  secrets: readonly string[],
  { isCut = false }: { readonly isCut?: boolean } = {},
): string => {
  // Most answers are.
  if (text.length < minSecretLength) return text;
  const forms = [...new Set(secrets.flatMap(formsOf))]
    .filter(({ length }) => length >= minSecretLength)
    .toSorted((a, b) => b.length - a.length);
  const without = forms.reduce((left, form) => left.replaceAll(form, hidden), text);
  return isCut ? withoutBeginning(without, forms) : without;
};
