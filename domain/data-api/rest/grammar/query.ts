import {
  type OrderAst,
  type Cursor,
  fail,
  isAtEnd,
  requireEnd,
  sees,
  skipSpace,
  take,
  readField,
  readName,
  readRestOfField,
  type RelationAst,
  type SelectItem,
  need,
  refuse,
  takeForm,
  takeCast,
  type At,
  type ConditionAst,
  type FieldAst,
  type ParsedQuery,
  cursorOf,
  type Pair,
  pairsOf,
} from './grammar.ts';
import type { Aggregate } from '../../data-api.ts';
import { DataError } from '../../errors.ts';
import { hasOperator, readFilterValue, readLogic } from './conditions.ts';

const endsTerm = (cursor: Cursor): boolean => {
  skipSpace(cursor);
  return isAtEnd(cursor) || sees(cursor, ',');
};

const takeDirection = (cursor: Cursor): OrderAst['direction'] => {
  if (take(cursor, '.asc')) return 'asc';
  return take(cursor, '.desc') ? 'desc' : null;
};

const takeNulls = (cursor: Cursor): OrderAst['nulls'] => {
  if (take(cursor, '.nullsfirst')) return 'first';
  return take(cursor, '.nullslast') ? 'last' : null;
};

const failInTerm = (cursor: Cursor, { direction, nulls }: Pick<OrderAst, 'direction' | 'nulls'>): never => {
  if (nulls !== null) return fail(cursor, '"," or end of input');
  // The dot is right, what follows it is not.
  if (take(cursor, '.')) return fail(cursor, direction === null ? waysWanted : '"nullsfirst" or "nullslast"');
  return fail(cursor, 'delimiter (.), "," or end of input');
};
const waysWanted = '"asc", "desc", "nullsfirst" or "nullslast"';

const readTarget = (cursor: Cursor): Pick<OrderAst, 'relation' | 'field'> => {
  const name = readName(cursor);
  if (!take(cursor, '(')) return { relation: null, field: readRestOfField(cursor, name) };
  skipSpace(cursor);
  const field = readField(cursor);
  skipSpace(cursor);
  if (!take(cursor, ')')) fail(cursor, '"->>", "->" or ")"');
  return { relation: name, field };
};

const readTerm = (cursor: Cursor): OrderAst => {
  skipSpace(cursor);
  const target = readTarget(cursor);
  const ways = { direction: takeDirection(cursor), nulls: takeNulls(cursor) };
  if (!endsTerm(cursor)) failInTerm(cursor, ways);
  return { ...target, ...ways };
};

/** The whole of `order=`. */
const readOrder = (cursor: Cursor): readonly OrderAst[] => {
  const terms: OrderAst[] = [];
  do terms.push(readTerm(cursor));
  while (take(cursor, ','));
  requireEnd(cursor, '","');
  return terms;
};

const maxDepth = 10;

const aggregateForm = /\.(?:count|sum|avg|min|max)\(\)/y;
const countForm = /count\(\)/y;

const takeAggregate = (cursor: Cursor): Aggregate | null => {
  const found = takeForm(cursor, aggregateForm);
  return found === null ? null : (found.slice(1, -2) as Aggregate);
};

const takeAlias = (cursor: Cursor, name: string): string | null => {
  if (!sees(cursor, ':') || sees(cursor, '::')) return null;
  cursor.at += 1;
  return name;
};

/** Up to one hint and one kind of join, in either order. */
const readMarks = (cursor: Cursor): Pick<RelationAst, 'hint' | 'inner'> => {
  let hint: string | null = null;
  let join: string | null = null;
  while (take(cursor, '!')) {
    const mark = readName(cursor);
    const isJoin = mark === 'inner' || mark === 'left';
    if ((isJoin ? join : hint) !== null) fail(cursor, '"("');
    if (isJoin) join = mark;
    else hint = mark;
  }
  return { hint, inner: join === 'inner' };
};

const readRelation = (
  cursor: Cursor,
  depth: number,
  head: Pick<RelationAst, 'alias' | 'name' | 'spread'>,
): RelationAst => {
  const marks = readMarks(cursor);
  need(cursor, '(');
  if (depth === maxDepth) refuse(cursor, `embedded resources are nested deeper than ${maxDepth} levels`);
  skipSpace(cursor);
  const items = sees(cursor, ')') ? [] : readItems(cursor, depth + 1);
  if (!take(cursor, ')')) fail(cursor, '"," or ")"');
  return { kind: 'relation', ...head, ...marks, items };
};

const countOf = (cursor: Cursor, alias: string | null): SelectItem => {
  const aggregateCast = takeCast(cursor);
  return { kind: 'field', alias, field: null, cast: null, aggregate: 'count', aggregateCast };
};

const readFieldItem = (cursor: Cursor, alias: string | null, name: string): SelectItem => {
  const field = readRestOfField(cursor, name);
  const cast = takeCast(cursor);
  const aggregate = takeAggregate(cursor);
  const aggregateCast = aggregate === null ? null : takeCast(cursor);
  return { kind: 'field', alias, field, cast, aggregate, aggregateCast };
};

const readNamed = (cursor: Cursor, depth: number): SelectItem => {
  const count = takeForm(cursor, countForm);
  if (count !== null) return countOf(cursor, null);
  const first = readName(cursor);
  const alias = takeAlias(cursor, first);
  if (alias !== null && takeForm(cursor, countForm) !== null) return countOf(cursor, alias);
  const name = alias === null ? first : readName(cursor);
  if (sees(cursor, '!') || sees(cursor, '(')) return readRelation(cursor, depth, { alias, name, spread: false });
  return readFieldItem(cursor, alias, name);
};

const readItem = (cursor: Cursor, depth: number): SelectItem => {
  skipSpace(cursor);
  if (take(cursor, '*')) return { kind: 'all' };
  if (take(cursor, '...')) return readRelation(cursor, depth, { alias: null, name: readName(cursor), spread: true });
  return readNamed(cursor, depth);
};

const readItems = (cursor: Cursor, depth: number): SelectItem[] => {
  const items: SelectItem[] = [];
  do {
    items.push(readItem(cursor, depth));
    skipSpace(cursor);
  } while (take(cursor, ','));
  return items;
};

/** The whole of `select=`; nothing means everything. */
const readSelect = (cursor: Cursor): readonly SelectItem[] => {
  skipSpace(cursor);
  if (isAtEnd(cursor)) return [{ kind: 'all' }];
  const items = readItems(cursor, 0);
  requireEnd(cursor, '","');
  return items;
};

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
