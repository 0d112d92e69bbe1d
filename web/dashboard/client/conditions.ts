import { quotedName } from './rest.ts';

/** One condition of a view, in the grammar of the data API: a column, and what comes behind the `=`. */
export interface Condition {
  readonly column: string;
  readonly operator: string;
  readonly value: string;
}

/** The operators of the data API, each with the words that people choose from. */
export const operators: Readonly<Record<string, string>> = {
  eq: 'is',
  neq: 'is not',
  gt: '>',
  gte: '≥',
  lt: '<',
  lte: '≤',
  like: 'is like (* for any text)',
  ilike: 'is like, in any case',
  in: 'is one of (a,b)',
  is: 'is null, true or false',
  'not.is': 'is not null, true or false',
  match: 'matches',
};

const unquoted = (name: string): string =>
  name.startsWith('"') && name.endsWith('"') && name.length > 1 ? name.slice(1, -1).replaceAll(/\\(.)/g, '$1') : name;

const conditionOf = ([name, text]: [string, string]): Condition => {
  const operator = Object.keys(operators)
    .toSorted((a, b) => b.length - a.length)
    .find((one) => text.startsWith(`${one}.`));
  return operator === undefined
    ? { column: unquoted(name), operator: '', value: text }
    : { column: unquoted(name), operator, value: text.slice(operator.length + 1) };
};

/** The conditions of a filter as it stands in an address. */
export const conditionsOf = (filter: string): Condition[] => [...new URLSearchParams(filter)].map(conditionOf);

const listed = (value: string): string => (/^\(.*\)$/.test(value) ? value : `(${value})`);

/** The condition as a parameter; one that nobody knows here (`or=(…)`) stays as it is. */
const parameterOf = ({ column, operator, value }: Condition): [string, string] => {
  if (operator === '') return [column === 'or' || column === 'and' ? column : quotedName(column), value];
  return [quotedName(column), `${operator}.${operator === 'in' ? listed(value) : value}`];
};

export const filterOf = (conditions: readonly Condition[]): string =>
  new URLSearchParams(conditions.map(parameterOf)).toString();

/** One column of an order, `"name".desc`. */
interface OrderTerm {
  readonly column: string;
  readonly isDescending: boolean;
}

export const orderOf = (terms: readonly OrderTerm[]): string =>
  terms.map(({ column, isDescending }) => `${quotedName(column)}.${isDescending ? 'desc' : 'asc'}`).join(',');

/** The terms of an order that `orderOf` wrote; null for any other. */
export const termsOf = (order: string): OrderTerm[] | null => {
  const form = /(?:^|,)"((?:[^"\\]|\\.)*)"\.(asc|desc)/gy;
  const terms = [...order.matchAll(form)].map(([, name = '', direction]) => ({
    column: name.replaceAll(/\\(.)/g, '$1'),
    isDescending: direction === 'desc',
  }));
  return orderOf(terms) === order ? terms : null;
};

/** A value within `or=(…)` and `and=(…)`, where commas and parentheses have a meaning. */
const quotedValue = (text: string): string => `"${text.replaceAll(/[\\"]/g, String.raw`\$&`)}"`;

/**
 * The condition that only rows behind this one fulfil (keyset paging), for an order that ends with the whole primary
 * key. Null where a value is not known or is NULL, which no comparison finds.
 */
export const afterRow = (
  terms: readonly OrderTerm[],
  textOfColumn: (column: string) => string | null,
): string | null => {
  const parts: string[] = [];
  const equal: string[] = [];
  for (const { column, isDescending } of terms) {
    const text = textOfColumn(column);
    if (text === null) return null;
    const [name, value] = [quotedName(column), quotedValue(text)];
    parts.push(`and(${[...equal, `${name}.${isDescending ? 'lt' : 'gt'}.${value}`].join(',')})`);
    equal.push(`${name}.eq.${value}`);
  }
  return parts.length === 0 ? null : `(${parts.join(',')})`;
};
