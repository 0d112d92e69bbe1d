import type { ComparisonOperator, Condition, Value } from '../plan.ts';
import type { Column } from '../schema/types.ts';
import { failure } from './failure.ts';
import { type Inputs, encoderOf, listEncoderOf } from './inputs.ts';
import { isFields } from './literals.ts';
import type { GraphTable } from './model.ts';

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

/** Those of text. */
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

/** Those of jsonb and arrays. */
export const containOperators: Readonly<Record<string, Operator>> = {
  _contains: { operator: 'cs' },
  _contained_in: { operator: 'cd' },
};

const operators: Readonly<Record<string, Operator>> = { ...plainOperators, ...textOperators, ...containOperators };

/** Whether a key of an object is an operator; JSON that is compared with has other keys. */
export const isOperator = (name: string): boolean => Object.hasOwn(operators, name) || /^_(n?in|is_null)$/.test(name);

export const wholeValue = (column: Column): Value => ({ column, path: [] });

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
    const isNull = inputs.look(value);
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

const comparisons = (column: Column, value: unknown, inputs: Inputs): Condition => {
  const found = inputs.look(value);
  if (!isFields(found)) throw missing(column, 'a comparison');
  return all(Object.entries(found).map((entry) => comparison(column, entry, inputs)));
};

const list = (value: unknown, inputs: Inputs): readonly unknown[] => {
  const found = inputs.look(value);
  return Array.isArray(found) ? found : [found];
};

const partOf = (table: GraphTable, name: string, value: unknown, inputs: Inputs): Condition => {
  const nested = (one: unknown): Condition => conditionOf(table, one, inputs);
  if (name === '_and' || name === '_or')
    return { kind: name === '_and' ? 'and' : 'or', parts: list(value, inputs).map(nested) };
  if (name === '_not') return { kind: 'not', part: nested(value) };
  const column = table.columns.get(name);
  if (column) return comparisons(column, value, inputs);
  const relation = table.relations.get(name);
  if (!relation) throw failure('validation_failed', `${table.name} has no ${name}.`);
  const { relationship, target } = relation;
  return { kind: 'related', relationship, table: target.table, where: conditionOf(target, value, inputs) };
};

/** What a `t_bool_exp` asks of the rows of its table. `{}`: nothing. @throws {GraphQLError} */
export const conditionOf = (table: GraphTable, value: unknown, inputs: Inputs): Condition => {
  const found = inputs.look(value);
  if (!isFields(found)) throw failure('validation_failed', `A condition on ${table.name} is null.`);
  const given = Object.entries(found).filter(([, part]) => part !== undefined);
  return all(given.map(([name, part]) => partOf(table, name, part, inputs)));
};
