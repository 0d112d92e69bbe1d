/**
 * A Slack slash command: a signed form, answered with a message. Public; its environment has SLACK_SIGNING_SECRET.
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async ({ command, text }, { request, env }) => {
  if (request === null) return null;
  const time = request.headers.get('x-slack-request-timestamp') ?? '';
  const isRecent = Math.abs(Date.now() / 1000 - Number(time)) < 300;
  const signed = `v0:${time}:${await request.text()}`;
  const given = request.headers.get('x-slack-signature') ?? '';
  if (!isRecent || !(await isSigned(signed, given.slice('v0='.length), env.SLACK_SIGNING_SECRET ?? ''))) {
    return new Response('The signature is not valid.', { status: 401 });
  }
  return Response.json({ response_type: 'in_channel', text: `${command} says: ${text}` });
};

/** Compares in constant time, which `verify` does for us. */
async function isSigned(/** @type {string} */ text, /** @type {string} */ hex, /** @type {string} */ secret) {
  const encoder = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['verify']);
  const signature = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return crypto.subtle.verify('HMAC', key, signature, encoder.encode(text));
}
