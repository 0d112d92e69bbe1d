/**
 * A Stripe webhook: the signature is over the exact bytes of the body. Public; its environment has
 * STRIPE_WEBHOOK_SECRET. An event that comes twice is counted once.
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async (event, { request, env, db }) => {
  if (request === null) return null;
  const header = request.headers.get('stripe-signature') ?? '';
  const time = /(?:^|,)t=(\d+)/.exec(header)?.[1] ?? '';
  const signatures = [...header.matchAll(/(?:^|,)v1=([0-9a-f]{64})/g)].map(([, hex = '']) => hex);
  const isRecent = Math.abs(Date.now() / 1000 - Number(time)) < 300;
  const body = await new Blob([`${time}.`, request.rawBody]).bytes();
  const checks = await Promise.all(signatures.map((hex) => isSigned(body, hex, env.STRIPE_WEBHOOK_SECRET ?? '')));
  if (!isRecent || !checks.includes(true)) return new Response('The signature is not valid.', { status: 400 });
  await db.query('insert into payments (id, type) values ($1, $2) on conflict do nothing', [event.id, event.type]);
  return { received: true };
};

async function isSigned(
  /** @type {Uint8Array<ArrayBuffer>} */ body,
  /** @type {string} */ hex,
  /** @type {string} */ secret,
) {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), algorithm, false, ['verify']);
  const signature = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return crypto.subtle.verify('HMAC', key, signature, body);
}
