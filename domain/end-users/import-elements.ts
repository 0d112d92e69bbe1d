/** A part of a text, in bytes. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

const opening = /^\s*\{\s*"users"\s*:\s*\[/;
const closing = /^\s*\}\s*$/;
/** White space before the list; more is not of the form. */
const maxOpening = 1024;

/** Where a string ends that begins at `start`; the length of the text when it does not. */
const endOfString = (text: Buffer, start: number): number => {
  let at = start + 1;
  while (at < text.length && text[at] !== quote) at += text[at] === backslash ? 2 : 1;
  return at + 1;
};

/** Where the element ends that begins at `start`: at a comma or bracket of its list. */
const endOfElement = (text: Buffer, start: number): number => {
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const byte = text[at];
    if (depth === 0 && (byte === comma || byte === closeBracket)) return at;
    if (byte === openBrace || byte === openBracket) depth += 1;
    if (byte === closeBrace || byte === closeBracket) depth -= 1;
    at = byte === quote ? endOfString(text, at) : at + 1;
  }
  return at;
};

const isBlank = (text: Buffer, { start, end }: Span): boolean => text.toString('latin1', start, end).trim() === '';

/**
 * The elements of `{"users": [ … ]}`, each still to be parsed: a text that is not JSON fails there. Nothing is built, so
 * the time grows with the bytes alone.
 * @returns null when the text has another form
 */
export const elementsOf = (text: Buffer): readonly Span[] | null => {
  const [found] = opening.exec(text.toString('latin1', 0, maxOpening)) ?? [];
  if (found === undefined) return null;
  const spans: Span[] = [];
  let start = found.length;
  while (start < text.length) {
    const end = endOfElement(text, start);
    const span = { start, end };
    const isEmpty = text[end] === closeBracket && spans.length === 0 && isBlank(text, span);
    if (!isEmpty) spans.push(span);
    if (text[end] !== comma) return closing.test(text.toString('latin1', end + 1, end + 1 + maxOpening)) ? spans : null;
    start = end + 1;
  }
  return null;
};
