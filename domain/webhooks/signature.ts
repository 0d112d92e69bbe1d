import { createHmac } from 'node:crypto';

/** What a delivery is signed over, and with. */
export interface Signing {
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
 * The headers by which a receiver knows that a delivery is ours: one over the body with the secret as it is written, and
 * those of Standard Webhooks, signed with the secret before the last one, too, while that is valid.
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
