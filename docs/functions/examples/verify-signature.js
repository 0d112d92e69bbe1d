/**
 * Checks a signed message (HMAC-SHA256 in hex) in constant time; the secret is an environment variable.
 *
 * @env SIGNING_SECRET=topsecret
 * @payload {"body":"{\"event\":\"order.paid\"}","signature":"e78008d6449cb290557d3304e390b9198e0e8c2cef78f83a498983bddacf590c"}
 * @answer {"accepted":true,"event":"order.paid"}
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async ({ body, signature }, { env }) => {
  const text = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', text.encode(env.SIGNING_SECRET), algorithm, false, ['verify']);
  const bytes = Uint8Array.from(signature.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const accepted = await crypto.subtle.verify('HMAC', key, bytes, text.encode(body));
  return accepted ? { accepted, event: JSON.parse(body).event } : { accepted };
};
