'use strict';
const { webcrypto } = require('node:crypto');
const { isCryptoKey } = require('node:util/types');

const maxOpenBytes = 32 * 1024 * 1024;
const maxKeys = 1000;
const prefix = 'crypto.';
const methods = new Set(
  ['decrypt', 'deriveBits', 'deriveKey', 'digest', 'encrypt', 'exportKey', 'generateKey', 'importKey', 'sign'].concat([
    'unwrapKey',
    'verify',
    'wrapKey',
  ]),
);

/** `crypto.subtle` of one run. Keys stay on this side and end with the run. */
class RunCrypto {
  #keys = [];
  #openBytes = 0;
  /** Operations that have begun and not ended: nothing can stop them but the end of this process. */
  open = 0;

  /** Whether a call is for here and not for the host. */
  static answers(op) {
    return op.startsWith(prefix);
  }

  /** @returns `{ ok, value }`, JSON text: the result, or the name and message of what went wrong */
  async answer(op, args) {
    this.open += 1;
    this.#openBytes += args.length;
    try {
      if (this.#openBytes > maxOpenBytes) throw fault('OperationError', 'More than 32 MB wait to be worked on.');
      return { ok: true, value: JSON.stringify(await this.#run(op.slice(prefix.length), JSON.parse(args))) };
    } catch (error) {
      const { name, message } = error ?? {};
      return { ok: false, value: JSON.stringify({ name: String(name), message: String(message) }) };
    } finally {
      this.open -= 1;
      this.#openBytes -= args.length;
    }
  }

  async #run(method, args) {
    if (!methods.has(method)) throw new TypeError(`There is no crypto.subtle.${method}`);
    const result = await webcrypto.subtle[method](...args.map((arg) => this.#received(arg)));
    return this.#toSend(result) ?? null;
  }

  #received(value) {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.#received(item));
    if (typeof value.$bytes === 'string') return Uint8Array.fromBase64(value.$bytes);
    if (typeof value.$key === 'number') return this.#keys[value.$key] ?? null;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, this.#received(item)]));
  }

  #toSend(value) {
    if (value instanceof ArrayBuffer) return { $bytes: new Uint8Array(value).toBase64() };
    if (isCryptoKey(value)) return this.#keep(value);
    if (value?.publicKey !== undefined) {
      return { $pair: { publicKey: this.#keep(value.publicKey), privateKey: this.#keep(value.privateKey) } };
    }
    return value;
  }

  #keep(key) {
    if (this.#keys.length >= maxKeys) throw fault('QuotaExceededError', `A run has at most ${maxKeys} keys.`);
    const { type, extractable, usages } = key;
    const { publicExponent, ...algorithm } = key.algorithm;
    if (publicExponent !== undefined) algorithm.publicExponent = { $bytes: publicExponent.toBase64() };
    return { $key: this.#keys.push(key) - 1, type, extractable, usages, algorithm };
  }
}

const fault = (name, message) => Object.assign(new Error(message), { name });

module.exports = { RunCrypto };
