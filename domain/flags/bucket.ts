const [c1, c2] = [0xcc9e2d51, 0x1b873593];

const scramble = (word: number): number => {
  const multiplied = Math.imul(word, c1);
  return Math.imul((multiplied << 15) | (multiplied >>> 17), c2);
};

const mix = (hash: number, word: number): number => {
  const mixed = hash ^ scramble(word);
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0;
};

const finish = (hash: number, length: number): number => {
  let final = hash ^ length;
  final = Math.imul(final ^ (final >>> 16), 0x85ebca6b);
  final = Math.imul(final ^ (final >>> 13), 0xc2b2ae35);
  return (final ^ (final >>> 16)) >>> 0;
};

const maxAscii = 0x7f;

/** A byte for each character; null for a text with others than ASCII. A buffer of its own would cost 150 ns. */
const hashAscii = (text: string): number | null => {
  const { length } = text;
  const whole = length & ~3;
  let hash = 0;
  let seen = 0;
  for (let at = 0; at < whole; at += 4) {
    const a = text.charCodeAt(at);
    const b = text.charCodeAt(at + 1);
    const c = text.charCodeAt(at + 2);
    const d = text.charCodeAt(at + 3);
    seen |= a | b | c | d;
    hash = mix(hash, a | (b << 8) | (c << 16) | (d << 24));
  }
  if (seen > maxAscii) return null;
  let rest = 0;
  for (let at = length - 1; at >= whole; at -= 1) {
    const code = text.charCodeAt(at);
    if (code > maxAscii) return null;
    rest = (rest << 8) | code;
  }
  return finish(length === whole ? hash : hash ^ scramble(rest), length);
};

const hashBytes = (bytes: Buffer): number => {
  const whole = bytes.length & ~3;
  let hash = 0;
  for (let at = 0; at < whole; at += 4) hash = mix(hash, bytes.readInt32LE(at));
  let rest = 0;
  for (let at = bytes.length - 1; at >= whole; at -= 1) rest = (rest << 8) | (bytes[at] ?? 0);
  return finish(bytes.length === whole ? hash : hash ^ scramble(rest), bytes.length);
};

/** MurmurHash3 (x86, 32 bits, seed 0) of the text in UTF-8. */
export const murmur3 = (text: string): number => hashAscii(text) ?? hashBytes(Buffer.from(text));

export const buckets = 100_000;

/** The place of somebody among all users of a flag, 0 to 99,999: the same each time (contract, section 10). */
export const bucketOf = (flagKey: string, attribute: string): number => murmur3(`${flagKey}:${attribute}`) % buckets;
