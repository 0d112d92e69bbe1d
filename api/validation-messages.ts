import type { z } from 'zod';

type Issue = z.core.$ZodRawIssue;
type IssueOf<Code extends Issue['code']> = Extract<Issue, { code: Code }>;

const kinds: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  date: 'a time',
  null: 'null',
};

const things: Readonly<Record<string, string>> = { string: ' characters', array: ' items' };

const formats: Readonly<Record<string, string>> = {
  datetime: 'a time such as 2026-05-31T18:00:00Z',
  uuid: 'a UUID',
  email: 'an e-mail address',
  url: 'a URL',
};

const kindOf = (expected: string): string => kinds[expected] ?? `of the kind ${expected}`;

const listed = (values: readonly unknown[]): string => values.map(String).join(', ');

const boundOf = (bound: unknown, word: string, origin: string): string => {
  const thing = things[origin];
  if (thing === undefined) return `must be ${word} ${String(bound)}`;
  return `must have ${word} ${String(bound)}${Number(bound) === 1 ? thing.replace(/s$/, '') : thing}`;
};

const words: { readonly [Code in Issue['code']]?: (issue: IssueOf<Code>) => string } = {
  invalid_type: ({ expected, input }) => `${input === undefined ? 'is required: ' : 'must be '}${kindOf(expected)}`,
  invalid_value: ({ values, input }) => `${input === undefined ? 'is required: ' : 'must be '}one of ${listed(values)}`,
  too_small: ({ minimum, origin }) => boundOf(minimum, 'at least', origin),
  too_big: ({ maximum, origin }) => boundOf(maximum, 'at most', origin),
  invalid_format: ({ format }) => `must be ${formats[format] ?? `of the format ${format}`}`,
  unrecognized_keys: ({ keys }) => `has no field ${keys.join(', ')}: leave out what is not documented`,
};

/**
 * Describes the problem of a value, and so its remedy, for a schema that does not do so itself.
 * @returns undefined where there is no better word than the schema's
 */
export const inPlainWords = (issue: Issue): string | undefined => {
  const say = words[issue.code] as ((given: Issue) => string) | undefined;
  return say?.(issue);
};
