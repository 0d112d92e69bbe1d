import { DataError } from '#domain/data-api/errors.ts';

export type Pair = readonly [name: string, value: string];

const decoded = (text: string): string => {
  if (!text.includes('%') && !text.includes('+')) return text;
  // A percent sign that begins no escape is itself, as for browsers: `like.%x%` is often written by hand.
  const escaped = text.replaceAll('+', ' ').replaceAll(/%(?![0-9a-f]{2})/gi, '%25');
  try {
    return decodeURIComponent(escaped);
  } catch {
    throw new DataError(400, 'PGRST100', 'The query string is not UTF-8.', {
      details: 'Characters beyond ASCII are percent-encoded as the bytes of their UTF-8.',
    });
  }
};

/** The parameters of a query string in their order, a repeated one each time. */
export const pairsOf = (queryText: string): Pair[] =>
  queryText
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      return at < 0 ? [decoded(part), ''] : [decoded(part.slice(0, at)), decoded(part.slice(at + 1))];
    });
