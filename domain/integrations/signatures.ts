import { createHmac, timingSafeEqual } from 'node:crypto';

const hmac = (secret: string, parts: readonly (string | Buffer)[]): Buffer => {
  const sum = createHmac('sha256', secret);
  for (const part of parts) sum.update(part);
  return sum.digest();
};

/** Compares in the same time wherever they differ. */
const isHexOf = (expected: Buffer, given: string): boolean => {
  if (!/^[0-9a-f]{64}$/i.test(given)) return false;
  return timingSafeEqual(expected, Buffer.from(given, 'hex'));
};

const maxHeaderLength = 4096;
// Stripe sends one for each secret that is valid; two while one is rolled.
const maxSignatures = 10;

const valuesOf = (header: string, name: string): string[] =>
  header
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));

/** How far from now a signed time may be, in seconds (contract, section 6; Stripe's own default). */
export const stripeWindowSeconds = 300;

/**
 * Stripe's scheme: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=…]`, each an HMAC-SHA256 of `<t>.<body>` with the secret as
 * it is written (docs.stripe.com/webhooks, "Verify manually").
 */
export const isSignedByStripe = (
  { header, body, secret }: { readonly header: string; readonly body: Buffer; readonly secret: string },
  now: number = Date.now(),
): boolean => {
  if (header.length > maxHeaderLength) return false;
  const [time, second] = valuesOf(header, 't');
  if (time === undefined || second !== undefined || !/^\d{1,12}$/.test(time)) return false;
  if (Math.abs(now / 1000 - Number(time)) > stripeWindowSeconds) return false;
  const expected = hmac(secret, [`${time}.`, body]);
  return valuesOf(header, 'v1')
    .slice(0, maxSignatures)
    .some((given) => isHexOf(expected, given));
};

/** Razorpay's scheme: `X-Razorpay-Signature`, the HMAC-SHA256 of the body in hex. It says nothing of the time. */
export const isSignedByRazorpay = ({
  header,
  body,
  secret,
}: {
  readonly header: string;
  readonly body: Buffer;
  readonly secret: string;
}): boolean => isHexOf(hmac(secret, [body]), header);
