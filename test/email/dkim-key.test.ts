import { generateKeyPairSync, randomBytes } from 'node:crypto';
import test from 'ava';
import { faultOfDkimKey } from '#domain/email/settings.ts';

const pkcs8 = { type: 'pkcs8', format: 'pem' } as const;
const rsa = (bits: number): string => generateKeyPairSync('rsa', { modulusLength: bits }).privateKey.export(pkcs8);

/** As good as a real one for whoever looks at lengths only. */
const number = (bits: number): bigint =>
  BigInt(`0x${randomBytes(bits / 8).toString('hex')}`) | (1n << BigInt(bits - 1)) | 1n;

/** DER, as far as keys need it. */
const tagged = (tag: number, content: Buffer): Buffer => {
  const size = content.length;
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
};

const integer = (n: bigint): Buffer => {
  const hex = n.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  return tagged(2, (bytes[0] ?? 0) > 127 ? Buffer.concat([Buffer.alloc(1), bytes]) : bytes);
};

const made = (
  factorBits: number,
  parts: { readonly n?: bigint; readonly e?: bigint; readonly d?: bigint } = {},
): string => {
  const [p, q] = [number(factorBits), number(factorBits)];
  const { n = p * q, e = 65_537n, d = n - 2n } = parts;
  const numbers = [0n, n, e, d, p, q, d % (p - 1n), d % (q - 1n), 5n].map(integer);
  const text = tagged(0x30, Buffer.concat(numbers)).toString('base64');
  return `-----BEGIN RSA PRIVATE KEY-----\n${text.replaceAll(/.{64}/g, '$&\n')}\n-----END RSA PRIVATE KEY-----\n`;
};

test('RSA keys of 1024 bits and more sign mail', (t) => {
  for (const bits of [1024, 2048]) t.is(faultOfDkimKey(rsa(bits)), null);
  t.is(faultOfDkimKey(made(2048)), null, '4096');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
  t.is(faultOfDkimKey(privateKey.export({ type: 'pkcs1', format: 'pem' })), null);
});

test('a key that takes long to sign with is refused', (t) => {
  t.regex(faultOfDkimKey(rsa(512)) ?? '', /1024 to 4096 bits, not of 512/);
  t.regex(faultOfDkimKey(made(2056)) ?? '', /1024 to 4096 bits, not of 41\d\d/);
  t.regex(faultOfDkimKey(made(9600)) ?? '', /1024 to 4096 bits/);
});

test('so is one whose modulus is small and whose other parts are not', (t) => {
  const n = number(2048);
  const found: Record<string, string | null> = {
    factors: faultOfDkimKey(made(9600, { n })),
    'shorter factors': faultOfDkimKey(made(3000, { n })),
    'private exponent': faultOfDkimKey(made(1024, { d: number(40_000) })),
    'public exponent': faultOfDkimKey(made(1024, { e: number(2048) })),
    'shorter public exponent': faultOfDkimKey(made(1024, { e: number(64) })),
  };
  for (const [what, fault] of Object.entries(found)) t.regex(fault ?? '', /belong together|must be a PEM/, what);
});

test('a key that mail is not signed with is refused, and it is said why', (t) => {
  for (const { privateKey } of [generateKeyPairSync('ed25519'), generateKeyPairSync('ec', { namedCurve: 'P-256' })])
    t.regex(faultOfDkimKey(privateKey.export(pkcs8)) ?? '', /must be an RSA key.*unsigned/);
  const pss = generateKeyPairSync('rsa-pss', { modulusLength: 1024 }).privateKey.export(pkcs8);
  t.regex(faultOfDkimKey(pss) ?? '', /must be an RSA key/);
  for (const text of ['', 'secret', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----'])
    t.is(faultOfDkimKey(text), 'must be a PEM private key');
});
