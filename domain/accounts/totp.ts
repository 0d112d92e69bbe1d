import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Time-based one-time passwords (RFC 6238) as authenticator apps make them: SHA-1, six digits, steps of 30 s. */
const stepSeconds = 30;
const usualDigits = 6;
/** RFC 4226, section 4, recommends 160 bits. */
const secretBytes = 20;
/** Steps to either side: clocks differ, and people type. */
const drift = 1;

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648, without padding, which authenticator apps do not want. */
export const base32 = (bytes: Buffer): string => {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? []).map((group) => alphabet[Number.parseInt(group.padEnd(5, '0'), 2)]).join('');
};

export const newTotpSecret = (): Buffer => randomBytes(secretBytes);

/** The time step of a moment. */
export const stepAt = (ms: number): number => Math.floor(ms / 1000 / stepSeconds);

/** The code of a time step (RFC 4226, section 5.3). */
export const codeAt = (secret: Buffer, step: number, digits = usualDigits): string => {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = mac.readUInt8(mac.length - 1) & 0xf;
  const number = (mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** digits;
  return String(number).padStart(digits, '0');
};

/**
 * The time step whose code this is, among those near to now that lie behind the one that was used last: a code works once.
 * @param lastStep null: none was used
 */
export const stepOfCode = (
  secret: Buffer,
  code: string,
  { now, lastStep }: { readonly now: number; readonly lastStep: number | null },
): number | undefined => {
  const present = stepAt(now);
  const given = Buffer.from(code);
  for (let step = present - drift; step <= present + drift; step += 1) {
    const expected = Buffer.from(codeAt(secret, step));
    const isSame = expected.length === given.length && timingSafeEqual(expected, given);
    if (isSame && (lastStep === null || step > lastStep)) return step;
  }
  return undefined;
};

/** The URI that authenticator apps read from a QR code. */
export const totpUri = (secret: Buffer, account: string): string =>
  `otpauth://totp/plinth:${encodeURIComponent(account)}?secret=${base32(secret)}&issuer=plinth&algorithm=SHA1&digits=${usualDigits}&period=${stepSeconds}`;
