import type { OrderAst } from './ast.ts';
import { type Cursor, fail, isAtEnd, requireEnd, sees, skipSpace, take } from './cursor.ts';
import { readField, readName, readRestOfField } from './fields.ts';

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
export const readOrder = (cursor: Cursor): readonly OrderAst[] => {
  const terms: OrderAst[] = [];
  do terms.push(readTerm(cursor));
  while (take(cursor, ','));
  requireEnd(cursor, '","');
  return terms;
};
