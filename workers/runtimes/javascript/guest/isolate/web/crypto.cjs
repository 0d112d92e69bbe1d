'use strict';
const { bytesOfBuffer } = require('./bytes.cjs');
const { DOMException } = require('./dom-exception.cjs');
const outside = require('./outside.cjs');

const maxRandomBytes = 65_536;
const ours = Symbol('made here');
const integerArray = /^(?:Int|Uint|BigInt|BigUint)(?:8|16|32|64)(?:Clamped)?Array$/;

/** The handle of a key: the key itself never comes here. */
let handleOf;

class CryptoKey {
  #fields;

  constructor(key, fields) {
    if (key !== ours) throw new TypeError('Illegal constructor');
    this.#fields = fields;
  }

  static {
    handleOf = (key) => key.#fields.handle;
  }

  get type() {
    return this.#fields.type;
  }
  get extractable() {
    return this.#fields.extractable;
  }
  get algorithm() {
    return this.#fields.algorithm;
  }
  get usages() {
    return this.#fields.usages;
  }
  get [Symbol.toStringTag]() {
    return 'CryptoKey';
  }
}

const methods = [
  'decrypt',
  'deriveBits',
  'deriveKey',
  'digest',
  'encrypt',
  'exportKey',
  'generateKey',
  'importKey',
  'sign',
  'unwrapKey',
  'verify',
  'wrapKey',
];

class SubtleCrypto {
  constructor(key) {
    if (key !== ours) throw new TypeError('Illegal constructor');
  }
  get [Symbol.toStringTag]() {
    return 'SubtleCrypto';
  }
}

for (const name of methods) {
  const method = { [name]: async (...args) => received(await callOutside(`crypto.${name}`, args.map(toSend))) }[name];
  Object.defineProperty(SubtleCrypto.prototype, name, { value: method, writable: true, configurable: true });
}

const subtle = new SubtleCrypto(ours);

class Crypto {
  constructor(key) {
    if (key !== ours) throw new TypeError('Illegal constructor');
  }
  get subtle() {
    return subtle;
  }
  getRandomValues(array) {
    const kind = ArrayBuffer.isView(array) ? Object.prototype.toString.call(array).slice(8, -1) : '';
    if (!integerArray.test(kind)) throw new DOMException('The array must hold integers', 'TypeMismatchError');
    const bytes = bytesOfBuffer(array);
    if (bytes.length > maxRandomBytes) throw new DOMException('More than 65,536 bytes', 'QuotaExceededError');
    if (bytes.length > 0) bytes.set(new Uint8Array(outside.ask('random', bytes.length)));
    return array;
  }
  randomUUID() {
    return outside.ask('uuid');
  }
  get [Symbol.toStringTag]() {
    return 'Crypto';
  }
}

async function callOutside(op, args) {
  try {
    return await outside.call(op, args);
  } catch (error) {
    throw error.name === 'TypeError' ? new TypeError(error.message) : new DOMException(error.message, error.name);
  }
}

/** Bytes and keys in a form that JSON can carry; a copy, made before anything waits. */
function toSend(value) {
  if (value instanceof CryptoKey) return { $key: handleOf(value) };
  const bytes = bytesOfBuffer(value);
  if (bytes !== undefined) return { $bytes: bytes.toBase64() };
  if (Array.isArray(value)) return value.map(toSend);
  if (typeof value !== 'object' || value === null) return value;
  const copy = {};
  // The fields of algorithms may be inherited, as Web IDL has it.
  for (const name in value) copy[name] = toSend(value[name]);
  return copy;
}

function received(value) {
  if (typeof value !== 'object' || value === null) return value;
  if (value.$bytes !== undefined) return Uint8Array.fromBase64(value.$bytes).buffer;
  if (value.$key !== undefined) {
    const { $key: handle, algorithm, ...fields } = value;
    return new CryptoKey(ours, { handle, algorithm: receivedAlgorithm(algorithm), ...fields });
  }
  if (value.$pair !== undefined) {
    const { publicKey, privateKey } = value.$pair;
    return { publicKey: received(publicKey), privateKey: received(privateKey) };
  }
  return value;
}

const receivedAlgorithm = ({ publicExponent, ...fields }) =>
  publicExponent === undefined ? fields : { ...fields, publicExponent: new Uint8Array(received(publicExponent)) };

module.exports = { Crypto, CryptoKey, SubtleCrypto, crypto: new Crypto(ours) };
