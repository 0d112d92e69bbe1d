import { type KeyObject, createPrivateKey } from 'node:crypto';

const minBits = 1024;
/** Twice the bits take eight times as long to sign with, and each mail is signed while everything else waits. */
const maxBits = 4096;
const maxExponent = 2n ** 32n;

const openKey = (pem: string): KeyObject | null => {
  try {
    return createPrivateKey(pem);
  } catch {
    return null;
  }
};

const number = (text = ''): bigint => BigInt(`0x0${Buffer.from(text, 'base64url').toString('hex')}`);

const numbersOf = (key: KeyObject) => {
  const { n, e, d, p, q, dp, dq, qi } = key.export({ format: 'jwk' });
  return {
    n: number(n),
    e: number(e),
    d: number(d),
    p: number(p),
    q: number(q),
    dp: number(dp),
    dq: number(dq),
    qi: number(qi),
  };
};

/** It is signed with the parts of the key; a small product says nothing of how long its factors are. */
const isWhole = (key: KeyObject): boolean => {
  try {
    const { n, e, d, p, q, dp, dq, qi } = numbersOf(key);
    return p > 1n && q > 1n && p * q === n && e > 1n && e < maxExponent && d < n && dp < p && dq < q && qi < p;
  } catch {
    return false;
  }
};

/** Why mail cannot be signed with this key; null: it can. @param pem of a private key */
export const faultOfDkimKey = (pem: string): string | null => {
  const key = openKey(pem);
  if (key === null) return 'must be a PEM private key';
  if (key.asymmetricKeyType !== 'rsa') {
    return `must be an RSA key: mail is signed with rsa-sha256, and with ${key.asymmetricKeyType} it would go out unsigned`;
  }
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < minBits || bits > maxBits) return `must be an RSA key of ${minBits} to ${maxBits} bits, not of ${bits}`;
  return isWhole(key) ? null : 'is no RSA key whose parts belong together';
};
