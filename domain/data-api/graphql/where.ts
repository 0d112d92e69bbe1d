import type { ComparisonOperator, Condition, Value } from '../data-api.ts';
import type { Column } from '../schema/schema.ts';
import { failure, type GraphTable } from './model.ts';
import type { Making } from './collect.ts';
import { type Inputs, encoderOf, listEncoderOf, isFields } from './inputs.ts';

interface Operator {
  readonly operator: ComparisonOperator;
  readonly not?: boolean;
}

/** Hasura's names for operators that compare with one value. */
export const plainOperators: Readonly<Record<string, Operator>> = {
  _eq: { operator: 'eq' },
  _neq: { operator: 'neq' },
  _gt: { operator: 'gt' },
  _gte: { operator: 'gte' },
  _lt: { operator: 'lt' },
  _lte: { operator: 'lte' },
};

/** Operators of text. */
export const textOperators: Readonly<Record<string, Operator>> = {
  _like: { operator: 'like' },
  _nlike: { operator: 'like', not: true },
  _ilike: { operator: 'ilike' },
  _nilike: { operator: 'ilike', not: true },
  _regex: { operator: 'match' },
  _nregex: { operator: 'match', not: true },
  _iregex: { operator: 'imatch' },
  _niregex: { operator: 'imatch', not: true },
};

/** Operators of jsonb and arrays. */
export const containOperators: Readonly<Record<string, Operator>> = {
  _contains: { operator: 'cs' },
  _contained_in: { operator: 'cd' },
};

const operators: Readonly<Record<string, Operator>> = { ...plainOperators, ...textOperators, ...containOperators };

/** Whether a key of an object is an operator; JSON that is compared with has other keys. */
export const isOperator = (name: string): boolean => Object.hasOwn(operators, name) || /^_(n?in|is_null)$/.test(name);

const wholeValue = (column: Column): Value => ({ column, path: [] });

// A variable that was forgotten must not widen what an update or a delete touches.
const missing = (column: Column, name: string): Error =>
  failure('validation_failed', `${column.name}: ${name} needs a value; null is asked for with _is_null.`);

const listed = (column: Column, name: '_in' | '_nin', operand: string): Condition => ({
  kind: 'compare',
  value: wholeValue(column),
  operator: name === '_in' ? 'eq' : 'neq',
  operand,
  quantifier: name === '_in' ? 'any' : 'all',
});

const comparison = (column: Column, [name, value]: [string, unknown], inputs: Inputs): Condition => {
  if (name === '_is_null') {
    const isNull = inputs.resolveVariables(value);
    if (typeof isNull !== 'boolean') throw missing(column, name);
    return { kind: 'is', value: wholeValue(column), what: isNull ? 'null' : 'not_null' };
  }
  const isList = name === '_in' || name === '_nin';
  const operand = inputs.text(value, isList ? listEncoderOf(column) : encoderOf(column));
  if (operand === null) throw missing(column, name);
  if (isList) return listed(column, name, operand);
  const { operator, not = false } = operators[name] ?? { operator: 'eq' };
  const compared: Condition = { kind: 'compare', value: wholeValue(column), operator, operand };
  return not ? { kind: 'not', part: compared } : compared;
};

const all = (parts: readonly Condition[]): Condition => {
  const [first] = parts;
  return first !== undefined && parts.length === 1 ? first : { kind: 'and', parts };
};

/** The state that conditions are read with. */
export type Reading = Pick<Making, 'inputs' | 'conditions'>;

const comparisons = (column: Column, value: unknown, { inputs, conditions }: Reading): Condition => {
  const found = inputs.resolveVariables(value);
  if (!isFields(found)) throw missing(column, 'a comparison');
  const given = Object.entries(found);
  if (given.length === 0)
    throw failure('validation_failed', `${column.name} is compared with nothing: {} has no operator.`);
  return all(
    given.map((entry) => {
      conditions.condition();
      return comparison(column, entry, inputs);
    }),
  );
};

const list = (value: unknown, { inputs }: Reading): readonly unknown[] => {
  const found = inputs.resolveVariables(value);
  return Array.isArray(found) ? found : [found];
};

const partOf = (table: GraphTable, name: string, value: unknown, reading: Reading): Condition => {
  const column = table.columns.get(name);
  if (column) return comparisons(column, value, reading);
  reading.conditions.condition();
  const nested = (one: unknown): Condition => conditionOf(table, one, reading);
  if (name === '_and' || name === '_or')
    return { kind: name === '_and' ? 'and' : 'or', parts: list(value, reading).map(nested) };
  if (name === '_not') return { kind: 'not', part: nested(value) };
  const relation = table.relations.get(name);
  if (!relation) throw failure('validation_failed', `${table.name} has no ${name}.`);
  const { relationship, target } = relation;
  return { kind: 'related', relationship, table: target.table, where: conditionOf(target, value, reading) };
};

/**
 * Compiles a `t_bool_exp` to a condition on the rows of its table. `{}`: none.
 * @throws {GraphQLError} also when there are more conditions than one statement may have
 */
export const conditionOf = (table: GraphTable, value: unknown, reading: Reading): Condition => {
  const found = reading.inputs.resolveVariables(value);
  if (!isFields(found)) throw failure('validation_failed', `A condition on ${table.name} is null.`);
  const given = Object.entries(found).filter(([, part]) => part !== undefined);
  if (given.length === 0) reading.conditions.condition();
  return all(given.map(([name, part]) => partOf(table, name, part, reading)));
};

/** Combines `and` and `or`: `decisive` is the value by which one part decides alone. */
const joined = (parts: readonly Condition[], decisive: boolean): boolean | null => {
  const known = new Set(parts.map(constantOf));
  if (known.has(decisive)) return decisive;
  return known.has(null) ? null : !decisive;
};

/**
 * Returns the constant value of a condition, the same for every row: `{}`, `{_and: []}`, `{_not: {_or: []}}`. Null: it
 * depends on the row.
 */
export const constantOf = (condition: Condition): boolean | null => {
  if (condition.kind === 'and' || condition.kind === 'or') return joined(condition.parts, condition.kind === 'or');
  if (condition.kind === 'not') {
    const inner = constantOf(condition.part);
    return inner === null ? null : !inner;
  }
  // Not in an empty list: all are.
  if (condition.kind === 'compare' && condition.quantifier !== undefined && condition.operand === '{}')
    return condition.quantifier === 'all';
  return null;
};
