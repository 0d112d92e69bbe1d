import test from 'ava';
import { openRuntime, request, resultOf, run } from './harness.ts';
import { sameAsNode } from './same-as-node.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

const tools = `
  const { subtle } = crypto; const enc = (text) => new TextEncoder().encode(text); const hex = (buffer) => Buffer.from(buffer).toString('hex');
  const secret = Uint8Array.from({ length: 32 }, (_, n) => n); const iv = new Uint8Array(16).fill(7);`;

sameAsNode(runtime, {
  digests: `${tools}
    return Promise.all(['SHA-1', 'SHA-256', 'SHA-384', { name: 'SHA-512' }].map(async (name) => hex(await subtle.digest(name, enc('abc')))))`,
  HMAC: `${tools}
    const key = await subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign', 'verify']);
    const signature = await subtle.sign('HMAC', key, enc('hi'));
    return [hex(signature), await subtle.verify('HMAC', key, signature, enc('hi')), await subtle.verify('HMAC', key, signature, enc('ho')), hex(await subtle.exportKey('raw', key)), await subtle.exportKey('jwk', key), key.type, key.extractable, key.algorithm, key.usages, key instanceof CryptoKey, Object.prototype.toString.call(key)]`,
  'AES in its modes': `${tools}
    return Promise.all([{ name: 'AES-GCM', iv: iv.subarray(0, 12), additionalData: enc('more') }, { name: 'AES-CBC', iv }, { name: 'AES-CTR', counter: iv, length: 64 }].map(async (algorithm) => {
      const key = await subtle.importKey('raw', secret, algorithm.name, false, ['encrypt', 'decrypt']); const sealed = await subtle.encrypt(algorithm, key, enc('plain'));
      return [hex(sealed), new TextDecoder().decode(await subtle.decrypt(algorithm, key, sealed))] }))`,
  'PBKDF2 and HKDF': `${tools}
    const from = (name) => subtle.importKey('raw', enc('password'), name, false, ['deriveBits', 'deriveKey']);
    const bits = await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: iv, iterations: 1000 }, await from('PBKDF2'), 256);
    const key = await subtle.deriveKey({ name: 'HKDF', hash: 'SHA-512', salt: iv, info: enc('i') }, await from('HKDF'), { name: 'AES-GCM', length: 128 }, true, ['encrypt']);
    return [hex(bits), hex(await subtle.exportKey('raw', key)), key.algorithm]`,
  'keys wrapped in keys': `${tools}
    const wrapping = await subtle.importKey('raw', secret, 'AES-KW', false, ['wrapKey', 'unwrapKey']); const key = await subtle.importKey('raw', secret.subarray(0, 16), 'AES-GCM', true, ['encrypt']);
    const wrapped = await subtle.wrapKey('raw', key, wrapping, 'AES-KW'); const back = await subtle.unwrapKey('raw', wrapped, wrapping, 'AES-KW', 'AES-GCM', true, ['encrypt']);
    return [hex(wrapped), hex(await subtle.exportKey('raw', back))]`,
  'elliptic curves sign, verify and agree': `${tools}
    const ed = await subtle.generateKey('Ed25519', true, ['sign', 'verify']); const ec = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    const ecdsa = { name: 'ECDSA', hash: 'SHA-256' }; const jwk = await subtle.exportKey('jwk', ec.publicKey); const again = await subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: 'P-256' }, true, ['verify']);
    const agree = async (algorithm, name) => { const [a, b] = [await subtle.generateKey(algorithm, false, ['deriveBits']), await subtle.generateKey(algorithm, false, ['deriveBits'])]; return hex(await subtle.deriveBits({ name, public: b.publicKey }, a.privateKey, 256)) === hex(await subtle.deriveBits({ name, public: a.publicKey }, b.privateKey, 256)) };
    return [await subtle.verify('Ed25519', ed.publicKey, await subtle.sign('Ed25519', ed.privateKey, enc('m')), enc('m')), await subtle.verify(ecdsa, again, await subtle.sign(ecdsa, ec.privateKey, enc('m')), enc('m')),
      await agree({ name: 'ECDH', namedCurve: 'P-256' }, 'ECDH'), await agree({ name: 'X25519' }, 'X25519'), jwk.kty, jwk.crv, (await subtle.exportKey('spki', ec.publicKey)).byteLength, ed.privateKey.type, ec.publicKey.algorithm]`,
  RSA: `${tools}
    const make = (name, usages) => subtle.generateKey({ name, modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }, true, usages);
    const rsa = await make('RSASSA-PKCS1-v1_5', ['sign', 'verify']); const oaep = await make('RSA-OAEP', ['encrypt', 'decrypt']);
    const sealed = await subtle.encrypt({ name: 'RSA-OAEP' }, oaep.publicKey, enc('m'));
    const { algorithm } = rsa.publicKey;
    return [await subtle.verify('RSASSA-PKCS1-v1_5', rsa.publicKey, await subtle.sign('RSASSA-PKCS1-v1_5', rsa.privateKey, enc('m')), enc('m')), new TextDecoder().decode(await subtle.decrypt({ name: 'RSA-OAEP' }, oaep.privateKey, sealed)), algorithm.name, algorithm.modulusLength, [...algorithm.publicExponent], algorithm.hash]`,
  'errors have their names': `${tools}
    const name = (promise) => promise.then(() => 'none', (error) => [error.name, error instanceof DOMException]);
    const key = await subtle.importKey('raw', secret, 'AES-GCM', false, ['decrypt']);
    return [await name(subtle.digest('MD5', iv)), await name(subtle.exportKey('raw', key)), await name(subtle.decrypt({ name: 'AES-GCM', iv }, key, new Uint8Array(32))), await name(subtle.encrypt({ name: 'AES-GCM', iv }, key, iv)), await name(subtle.importKey('raw', new Uint8Array(3), 'AES-GCM', false, ['decrypt'])), await name(subtle.sign('HMAC', {}, iv)), await name(subtle.digest('SHA-256', 'text'))]`,
  'random values fill integer arrays up to 64 KB': `
    const name = (f) => { try { return f() } catch (error) { return error.name } };
    const bytes = new Uint8Array(32); const given = crypto.getRandomValues(bytes); const part = new Uint8Array(8); crypto.getRandomValues(part.subarray(4)); const wide = crypto.getRandomValues(new BigUint64Array(4));
    return [given === bytes, new Set(bytes).size > 5, [...part.subarray(0, 4)], wide.some((n) => n > 2n ** 32n), name(() => crypto.getRandomValues(new Uint8Array(65537))), crypto.getRandomValues(new Uint8Array(65536)).length, name(() => crypto.getRandomValues(new Float32Array(1))), name(() => crypto.getRandomValues([1])), crypto.getRandomValues(new Int8Array(0)).length]`,
  'UUIDs are of version 4, and each another': `
    const ids = Array.from({ length: 5 }, () => crypto.randomUUID()); return [new Set(ids).size, ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))]`,
});

test('what is handed over is taken as it is at that moment', async (t) => {
  const code = `exports.handler = async () => {
    const bytes = new Uint8Array(1); const promise = crypto.subtle.digest('SHA-1', bytes); bytes[0] = 1;
    return Buffer.from(await promise).toString('hex');
  }`;
  t.is(await resultOf(t, runtime, code), '5ba93c9db0cff93f52b521d7420e43f6eda2784f');
});

test('keys end with their run, and nobody can make one up', async (t) => {
  const make = `globalThis.name = (promise) => promise.then(() => 'worked', (error) => error.name); const forged = Object.create(CryptoKey.prototype);`;
  const code = `exports.handler = async (fresh) => { ${make}
    if (fresh) { await crypto.subtle.generateKey('Ed25519', true, ['sign']); return 'made' }
    return [await name(crypto.subtle.exportKey('jwk', { $key: 0 })), await name(crypto.subtle.exportKey('jwk', forged)), await name((async () => new CryptoKey())())];
  }`;
  const fn = request(code);
  t.is((await runtime.run({ ...fn, payload: 'true' })).result, '"made"');
  t.is((await runtime.run({ ...fn, payload: 'false' })).result, '["TypeError","TypeError","TypeError"]');
});

test('too much at a time, or too many keys, is refused', async (t) => {
  const code = `exports.handler = async () => {
    const much = await crypto.subtle.digest('SHA-1', new Uint8Array(26_000_000)).catch((error) => error.name);
    const raw = new Uint8Array(16); let keys = 0;
    try { for (;;) { await crypto.subtle.importKey('raw', raw, 'AES-GCM', false, ['encrypt']); keys += 1 } }
    catch (error) { return [much, keys, error.name] }
  }`;
  const result = await resultOf(t, runtime, code, { memoryMib: 512 });
  t.deepEqual(result, ['OperationError', 1000, 'QuotaExceededError']);
});

test('work that would never end is stopped with its run, also when the handler has returned', async (t) => {
  const derive = `const key = await crypto.subtle.importKey('raw', new Uint8Array(9), 'PBKDF2', false, ['deriveBits']);
    const work = crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(8), iterations: 2 ** 31 - 1 }, key, 256);`;
  for (const end of ['await work', '']) {
    const outcome = await run(runtime, `exports.handler = async () => { ${derive} ${end} }`, { timeoutMs: 400 });
    t.regex(outcome.status, /^(?:timeout|cpu_limit)$/);
  }
  t.is(await resultOf(t, runtime, 'exports.handler = () => 1'), 1);
});
