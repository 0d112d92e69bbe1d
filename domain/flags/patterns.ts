import { RE2JS } from 're2js';

/** Patterns of the operator `matches`. The event loop that serves everybody compiles them, so that this is bounded. */

const maxPatternLength = 300;
/** Steps of a program before it is compiled: `(?:…){1000}` of 300 characters has 280,000, which take 180 ms. */
const maxEstimatedSize = 4000;
/** Each \p{…} has hundreds of ranges: 99 of them in one class take 140 ms. */
const maxUnicodeClasses = 20;
/** RE2JS folds the case of a range one character at a time: 40 ranges of 125,000 take 0.3 s. */
const maxFoldedCharacters = 25_000;

/** Bounds within which characters have cases. RE2JS takes a range that covers all of them as it is. */
const minFolded = 65;
const maxFolded = 125_251;

/** A character or an escape, as classes have them, too. */
const character = String.raw`\\[pP](?:\{[^}]*\}|.)|\\x\{[\da-fA-F]+\}|\\x[\da-fA-F]{2}|\\[0-7]{1,3}|\\.|.`;
const inClass = new RegExp(String.raw`\[:\^?\w+:\]|${character}`, 'suy');
const outside = new RegExp(
  String.raw`\\Q.*?(?:\\E|$)|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]|\{\d+(?:,\d*)?\}|${character}`,
  'suy',
);

/** The effort of compiling, as far as it shows in the text. */
export interface Estimate {
  /** Steps of the program, about as many as it has. */
  size: number;
  unicodeClasses: number;
  foldedCharacters: number;
}

const nextToken = (form: RegExp, text: string, at: number): string => {
  form.lastIndex = at;
  return form.exec(text)?.[0] ?? text.slice(at, at + 1);
};

const codeOf = (token: string): number => {
  const [, hex, octal] = /^\\(?:x\{?([\da-fA-F]+)\}?|([0-7]{1,3}))$/.exec(token) ?? [];
  if (hex !== undefined) return Number.parseInt(hex, 16);
  if (octal !== undefined) return Number.parseInt(octal, 8);
  return token.codePointAt(token.startsWith('\\') && token.length > 1 ? 1 : 0) ?? 0;
};

const foldedOf = (from: string, to: string): number => {
  const [low, high] = [codeOf(from), codeOf(to)];
  if (low <= minFolded && high >= maxFolded) return 0;
  return Math.max(0, Math.min(high, maxFolded) - Math.max(low, minFolded) + 1);
};

const isUnicodeClass = (token: string): boolean => /^\\p/i.test(token);

/** Counts a class that begins at a bracket. @returns where it ends */
const readClass = (text: string, start: number, estimate: Estimate): number => {
  const first = text.startsWith('[^', start) ? start + 2 : start + 1;
  const tokens: string[] = [];
  let at = first;
  while (at < text.length && (text[at] !== ']' || at === first)) {
    const token = nextToken(inClass, text, at);
    tokens.push(token);
    at += token.length;
  }
  for (const [index, token] of tokens.entries()) {
    if (isUnicodeClass(token)) estimate.unicodeClasses += 1;
    const end = tokens[index + 2];
    if (tokens[index + 1] === '-' && end !== undefined) estimate.foldedCharacters += foldedOf(token, end);
  }
  return at + 1;
};

/** Flags and empty quotations: a repetition behind them is one of what stands before. */
const addsNothing = /^\(\?|^\\Q(?:\\E)?$/;

const timesOf = (repetition: string): number =>
  Math.max(1, ...repetition.split(/\D+/).map(Number)) + (repetition.includes(',}') ? 1 : 0);

interface Steps {
  /** Sum within the group that is open. */
  size: number;
  /** The part that a repetition would repeat. */
  last: number;
  /** Sizes of the groups around it. */
  readonly outer: number[];
}

const addSteps = (steps: Steps, added: number): void => {
  steps.size += added;
  steps.last = added;
};

const isOpening = (token: string): boolean => token === '(' || /^\(\?.*[:>]$/.test(token);

const countToken = (token: string, steps: Steps): void => {
  if (isOpening(token)) {
    steps.outer.push(steps.size);
    steps.size = 0;
  } else if (token === ')') {
    const inner = steps.size + 2;
    steps.size = steps.outer.pop() ?? 0;
    addSteps(steps, inner);
  } else if (/^\{\d/.test(token)) {
    const { size, last } = steps;
    steps.size = size - last;
    addSteps(steps, last * timesOf(token));
  } else if (/^[*+?]$/.test(token)) {
    steps.size += 1;
    steps.last += 1;
  } else if (!addsNothing.test(token)) addSteps(steps, token.startsWith('\\Q') ? token.length : 1);
};

/** Counts without compiling, as RE2JS divides a text. Where that throws, what stands behind does not matter. */
export const estimateOf = (text: string): Estimate => {
  const estimate: Estimate = { size: 0, unicodeClasses: 0, foldedCharacters: 0 };
  const steps: Steps = { size: 0, last: 0, outer: [] };
  for (let at = 0; at < text.length;) {
    if (text[at] === '[') {
      at = readClass(text, at, estimate);
      addSteps(steps, 1);
      continue;
    }
    const token = nextToken(outside, text, at);
    at += token.length;
    if (isUnicodeClass(token)) estimate.unicodeClasses += 1;
    countToken(token, steps);
  }
  estimate.size = steps.outer.reduce((sum, one) => sum + one, steps.size);
  if (!/\(\?[a-zA-Z-]*i/.test(text)) estimate.foldedCharacters = 0;
  return estimate;
};

/** The problem of a pattern, or of several together, that would take long to compile; null when there is none. */
export const faultOfEstimate = ({ size, unicodeClasses, foldedCharacters }: Estimate): string | null => {
  if (size > maxEstimatedSize) return `is too large: its repetitions make more than ${maxEstimatedSize} steps`;
  if (unicodeClasses > maxUnicodeClasses) return `has at most ${maxUnicodeClasses} classes of Unicode, such as \\p{L}`;
  if (foldedCharacters <= maxFoldedCharacters) return null;
  return `ignores case, so that its ranges have at most ${maxFoldedCharacters} characters together`;
};

/** The problem of a pattern as far as it shows without compiling it, null when there is none. */
export const faultOfPatternText = (text: string): string | null =>
  text.length > maxPatternLength ? `has at most ${maxPatternLength} characters` : faultOfEstimate(estimateOf(text));

/**
 * A pattern in RE2's syntax, which goes through a text once, whatever the pattern: there is no backtracking.
 * @returns the problem of a text that is none
 */
export const patternOf = (text: string): RE2JS | string => {
  const fault = faultOfPatternText(text);
  if (fault !== null) return fault;
  try {
    return RE2JS.compile(text);
  } catch (error) {
    return `is no pattern of RE2: ${error instanceof Error ? error.message.slice(0, 100) : 'unknown'}`;
  }
};
