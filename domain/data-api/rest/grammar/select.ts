import type { Aggregate } from '#domain/data-api/plan.ts';
import type { RelationAst, SelectItem } from './ast.ts';
import { type Cursor, fail, isAtEnd, need, refuse, requireEnd, sees, skipSpace, take, takeForm } from './cursor.ts';
import { readName, readRestOfField, takeCast } from './fields.ts';

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
export const readSelect = (cursor: Cursor): readonly SelectItem[] => {
  skipSpace(cursor);
  if (isAtEnd(cursor)) return [{ kind: 'all' }];
  const items = readItems(cursor, 0);
  requireEnd(cursor, '","');
  return items;
};
