/**
 * Makes and checks a JSON Web Token with an elliptic-curve key, without any library.
 *
 * @payload {"subject":"user-1"}
 * @answer {"algorithm":"ES256","subject":"user-1","valid":true,"forged":false}
 */
const base64url = /** @type {const} */ ({ alphabet: 'base64url', omitPadding: true });
const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
const encode = (/** @type {unknown} */ value) => bytesOf(JSON.stringify(value)).toBase64(base64url);

/** @type {import('plinth/functions').Handler} */
exports.handler = async ({ subject }) => {
  const curve = { name: 'ECDSA', namedCurve: 'P-256' };
  const { publicKey, privateKey } = await crypto.subtle.generateKey(curve, false, ['sign', 'verify']);
  const how = { name: 'ECDSA', hash: 'SHA-256' };

  const header = { alg: 'ES256', typ: 'JWT' };
  const content = `${encode(header)}.${encode({ sub: subject })}`;
  const signature = await crypto.subtle.sign(how, privateKey, bytesOf(content));
  const token = `${content}.${new Uint8Array(signature).toBase64(base64url)}`;

  const check = (/** @type {string} */ text) => {
    const [head = '', body = '', mark = ''] = text.split('.');
    return crypto.subtle.verify(how, publicKey, Uint8Array.fromBase64(mark, base64url), bytesOf(`${head}.${body}`));
  };
  const forged = token.replace(/\..*\./, `.${encode({ sub: 'admin' })}.`);
  return { algorithm: header.alg, subject, valid: await check(token), forged: await check(forged) };
};
