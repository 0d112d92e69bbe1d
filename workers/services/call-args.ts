import { parseExactJson } from '#lib/json.ts';
import { CallFault } from '../runtimes/runtime.ts';

const kib = 1024;
const mib = 1024 * kib;

/** Characters of JSON that a call may carry. A body of 10 MB is 13.4 MiB in base64. */
const longest: readonly (readonly [op: RegExp, length: number])[] = [
  [/^(asCaller\.)?db\./, 8 * mib],
  [/^(jobs|db)\.enqueue$/, 8 * mib],
  [/^fetch$/, 14 * mib],
  [/^storage\.write$/, 384 * kib],
  [/^storage\.remove$/, mib],
  // A piece of 128 KB, or of 256 KB by somebody who knows what goes.
  [/^response\.write$/, 384 * kib],
  // Up to 4 MB of JSON as a text, in which most characters may be escaped.
  [/^step\.end$/, 9 * mib],
  // A result of 1 MB as a text, in which each of its characters may be escaped.
  [/^response\.early$/, 6 * mib + kib],
];
const maxOtherLength = 64 * kib;

// Exact reading takes some 0.2 ms a KiB of numbers, and nothing else is done meanwhile.
const maxExactLength = 128 * kib;
// Plain reading takes up to 0.5 µs for each.
const maxParts = 400_000;
const maxTexts = 800_000;
const unsafeDigits = 16;

const [quote, backslash, colon, bracket, brace] = [0x22, 0x5c, 0x3a, 0x5b, 0x7b];
const [zero, nine, point, bigE, smallE] = [0x30, 0x39, 0x2e, 0x45, 0x65];

/** The place of the quote that ends the text which begins before `at`. */
const endOfText = (text: string, at: number): number => {
  let index = at;
  for (let code = text.charCodeAt(index); code !== quote && index < text.length; code = text.charCodeAt(index)) {
    index += code === backslash ? 2 : 1;
  }
  return index;
};

const isDigit = (code: number): boolean => code >= zero && code <= nine;

/** The place behind a number: its digits before a point or an exponent, which are only JavaScript's own floats. */
const endOfDigits = (text: string, at: number): number => {
  let index = at;
  while (isDigit(text.charCodeAt(index))) index += 1;
  return index;
};

const isWhole = (text: string, end: number): boolean => {
  const code = text.charCodeAt(end);
  return code !== point && code !== bigE && code !== smallE;
};

/** Lists, objects, fields and texts, counted without building them; and whether a whole number may be beyond 2^53. */
const inspectArguments = (text: string): { isMuch: boolean; isUnsafe: boolean } => {
  let parts = 0;
  let texts = 0;
  let isUnsafe = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === quote) {
      texts += 1;
      index = endOfText(text, index + 1);
    } else if (code === bracket || code === brace || code === colon) parts += 1;
    else if (isDigit(code)) {
      const end = endOfDigits(text, index + 1);
      isUnsafe ||= end - index >= unsafeDigits && isWhole(text, end) && text.charCodeAt(index - 1) !== point;
      index = end - 1;
    }
  }
  return { isMuch: parts > maxParts || texts > maxTexts, isUnsafe };
};

const tooLong = (op: string, max: number): CallFault => {
  if (op === 'fetch') return new CallFault('TypeError', 'fetch failed: the body is larger than 10 MB.');
  const size = max < mib ? `${max / kib} KB` : `${max / mib} MB`;
  return new CallFault('TypeError', `${op}: a call carries at most ${size} as JSON.`);
};

const readLong = (op: string, text: string): unknown => {
  const { isMuch, isUnsafe } = inspectArguments(text);
  if (isMuch) throw new CallFault('TypeError', `${op}: too many values for one call. Send them in parts.`);
  if (!isUnsafe) return JSON.parse(text);
  const limit = `above ${maxExactLength / kib} KB in one call`;
  const rule = `whole numbers of ${unsafeDigits} digits and more must be text, or be sent in smaller parts.`;
  throw new CallFault('TypeError', `${op}: ${limit}, ${rule}`);
};

/**
 * The arguments of a call of user code. Reading them blocks everything else in the worker: they are bounded so that no
 * text takes much longer than 150 ms. Numbers that JavaScript cannot hold are kept as they were written.
 * @throws {CallFault} when it is too long or has too many parts
 */
export const readArgs = (op: string, text: string): unknown => {
  const max = longest.find(([ops]) => ops.test(op))?.[1] ?? maxOtherLength;
  if (text.length > max) throw tooLong(op, max);
  // Base64 is full of what looks like a number, and there is none; what else is sent stays a text.
  if (op === 'response.write' || op === 'response.early' || op === 'step.end') return JSON.parse(text);
  if (text.length > maxExactLength) return readLong(op, text);
  // Exact reading takes some ten times as long: only where there may be a number that JavaScript cannot hold.
  return /\d{16}|\d[eE]/.test(text) ? parseExactJson(text) : JSON.parse(text);
};
