/*
 * The dialect, PostgREST's. A parameter is a name and a value, percent-decoded, `+` being a space; the parts below are
 * those of names and values. Every part has a function of its own in this folder.
 *
 *   parameter  = "select" "=" [items]
 *              | "columns" "=" names | "on_conflict" "=" names
 *              | [path "."] "order" "=" term {"," term}
 *              | [path "."] ("limit" | "offset") "=" integer
 *              | [path "."] ["not."] ("and" | "or") "=" parts
 *              | [path "."] field "=" operation(rest)          | field "=" rest     (bare equality, /api/data only)
 *   path       = name {"." name}                               embedded relations, from the outermost
 *
 *   items      = item {"," item}
 *   item       = "*" | [name ":"] field [cast] [aggregate [cast]] | [name ":"] "count()" [cast]
 *              | [name ":"] relation | "..." relation
 *   relation   = name {"!" ("inner" | "left" | name)} "(" [items] ")"      at most one join and one hint
 *   aggregate  = "." ("count" | "sum" | "avg" | "min" | "max") "()"
 *   cast       = "::" type name ["[]"]
 *
 *   term       = (field | name "(" field ")") [".asc" | ".desc"] [".nullsfirst" | ".nullslast"]
 *
 *   operation(value) = ["not."] test(value)
 *   test(value)      = compare ["(" ("any" | "all") ")"] "." value          eq gt gte lt lte like ilike match imatch
 *                    | compare "." value                                    neq cs cd ov sl sr nxr nxl adj isdistinct
 *                    | "in." "(" [listed {"," listed}] ")"
 *                    | "is." ("null" | "not_null" | "true" | "false" | "unknown")
 *                    | ("fts" | "plfts" | "phfts" | "wfts") ["(" language ")"] "." value
 *   parts      = "(" part {"," part} ")"
 *   part       = ["not."] ("and" | "or") parts | field "." operation(bound)
 *
 *   rest       = everything that is left, as it is
 *   bound      = quoted | "{" characters without braces "}" | listed
 *   listed     = quoted | characters without "," and ")"
 *   field      = name {("->" | "->>") (integer | name)}
 *   name       = quoted | letters, digits, "_", "$", " ", and "-" within
 *   quoted     = '"' {character | "\" character} '"'
 */
import { DataError } from '#domain/data-api/errors.ts';
import type { At, ConditionAst, FieldAst, OrderAst, ParsedQuery, SelectItem } from './ast.ts';
import { hasOperator, readFilterValue, readLogic } from './conditions.ts';
import { type Cursor, cursorOf, fail, requireEnd, skipSpace, take } from './cursor.ts';
import { readName, readRestOfField } from './fields.ts';
import { readOrder } from './order.ts';
import { type Pair, pairsOf } from './pairs.ts';
import { readSelect } from './select.ts';

export interface ParseOptions {
  /** A value that does not begin with an operator is what the column has to be equal to (`/api/data`). */
  readonly bareEquality?: boolean;
  /** Such a value is the argument of a call (`/rpc`). */
  readonly arguments?: boolean;
}

interface Draft {
  select: readonly SelectItem[] | null;
  columns: readonly string[] | null;
  onConflict: readonly string[] | null;
  readonly where: At<ConditionAst>[];
  readonly order: At<readonly OrderAst[]>[];
  readonly limit: At<number>[];
  readonly offset: At<number>[];
  readonly args: Pair[];
}

const readNames = (subject: string, text: string): string[] => {
  const cursor = cursorOf(subject, text);
  const names: string[] = [];
  do {
    skipSpace(cursor);
    names.push(readName(cursor));
    skipSpace(cursor);
  } while (take(cursor, ','));
  requireEnd(cursor, '","');
  return names;
};

const readDotted = (cursor: Cursor): string[] => {
  const names: string[] = [];
  do names.push(readName(cursor));
  while (take(cursor, '.'));
  return names;
};

/** `author.data->>name`: the relations that lead to the field, and the field. */
const readKey = (key: string): { readonly path: readonly string[]; readonly field: FieldAst } => {
  const cursor = cursorOf('tree path', key);
  const names = readDotted(cursor);
  const name = names.pop() ?? '';
  const field = readRestOfField(cursor, name);
  requireEnd(cursor, '"->>", "->", delimiter (.)');
  return { path: names, field };
};

/** The relations in front of a word such as `order`. */
const pathOf = (key: string, word: string): readonly string[] => {
  if (key === word) return [];
  const cursor = cursorOf('tree path', key.slice(0, -word.length - 1));
  const names = readDotted(cursor);
  requireEnd(cursor, 'delimiter (.)');
  return names;
};

const outOfRange = (what: string): never => {
  throw new DataError(416, 'PGRST103', 'Requested range not satisfiable', {
    details: `${what} should be greater than or equal to zero.`,
  });
};

const readCount = (word: 'limit' | 'offset', value: string): number => {
  if (!/^[+-]?\d+$/.test(value)) fail(cursorOf(word, value), 'an integer');
  const count = Number(value);
  if (count < 0) outOfRange(word === 'limit' ? 'Limit' : 'Offset');
  return Math.min(count, Number.MAX_SAFE_INTEGER);
};

const addCount = (list: At<number>[], key: string, word: 'limit' | 'offset', value: string): void => {
  list.push({ path: pathOf(key, word), what: readCount(word, value) });
};

const addLogic = (draft: Draft, key: string, operator: 'and' | 'or', value: string): void => {
  const prefix = pathOf(key, operator);
  const negated = prefix.at(-1) === 'not';
  const parts = readLogic(cursorOf('logic tree', value));
  draft.where.push({ path: negated ? prefix.slice(0, -1) : prefix, what: { kind: 'logic', operator, negated, parts } });
};

const addFilter = (draft: Draft, [key, value]: Pair, options: ParseOptions): void => {
  const isBare = !hasOperator(value);
  if (isBare && options.arguments === true && !key.includes('.')) {
    draft.args.push([key, value]);
    return;
  }
  const { path, field } = readKey(key);
  const operation =
    isBare && options.bareEquality === true
      ? ({ negated: false, test: { kind: 'compare', operator: 'eq', quantifier: null, operand: value } } as const)
      : readFilterValue(cursorOf('filter', value));
  draft.where.push({ path, what: { kind: 'filter', field, ...operation } });
};

const words: Readonly<Record<string, (draft: Draft, key: string, value: string) => void>> = {
  order: (draft, key, value) =>
    void draft.order.push({ path: pathOf(key, 'order'), what: readOrder(cursorOf('order', value)) }),
  limit: (draft, key, value) => addCount(draft.limit, key, 'limit', value),
  offset: (draft, key, value) => addCount(draft.offset, key, 'offset', value),
  and: (draft, key, value) => addLogic(draft, key, 'and', value),
  or: (draft, key, value) => addLogic(draft, key, 'or', value),
};

/** Parameters of which the first counts. */
const single: Readonly<Record<string, (draft: Draft, value: string) => void>> = {
  select: (draft, value) => void (draft.select ??= readSelect(cursorOf('select parameter', value))),
  columns: (draft, value) => void (draft.columns ??= readNames('columns parameter', value)),
  on_conflict: (draft, value) => void (draft.onConflict ??= readNames('on_conflict parameter', value)),
};

const addPair = (draft: Draft, pair: Pair, options: ParseOptions): void => {
  const [key, value] = pair;
  const lastWord = key.slice(key.lastIndexOf('.') + 1);
  if (Object.hasOwn(single, key)) single[key]?.(draft, value);
  else if (Object.hasOwn(words, lastWord)) words[lastWord]?.(draft, key, value);
  else addFilter(draft, pair, options);
};

/**
 * Reads a query string. Filters that are repeated must all hold; of a repeated `select`, `columns`, `on_conflict` and
 * `order` the first counts, of `limit` and `offset` the last, as in PostgREST.
 * @param queryText what stands behind the `?`, as it came
 * @throws {DataError} PGRST100 (400) with the position of what is wrong, PGRST103 (416) for a negative limit or offset
 */
export const parseQuery = (queryText: string, options: ParseOptions = {}): ParsedQuery => {
  const draft: Draft = {
    select: null,
    columns: null,
    onConflict: null,
    where: [],
    order: [],
    limit: [],
    offset: [],
    args: [],
  };
  for (const pair of pairsOf(queryText)) addPair(draft, pair, options);
  return { ...draft, select: draft.select ?? [{ kind: 'all' }] };
};
