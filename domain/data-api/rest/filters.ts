import type { Condition, Value } from '#domain/data-api/plan.ts';
import type { Table } from '#domain/data-api/schema/types.ts';
import { valueOf } from './columns.ts';
import type { ConditionAst, TestAst } from './grammar/ast.ts';

type FilterAst = Extract<ConditionAst, { kind: 'filter' }>;

/** In a URL `%` has to be encoded, so that `*` is a wildcard, too. */
const patternOf = (operand: string): string => operand.replaceAll('*', '%');

const testedBy = (test: TestAst, value: Value): Condition => {
  if (test.kind !== 'compare') return { ...test, value };
  const { operator, quantifier, operand } = test;
  const isPattern = operator === 'like' || operator === 'ilike';
  return {
    kind: 'compare',
    value,
    operator,
    operand: isPattern ? patternOf(operand) : operand,
    ...(quantifier !== null && { quantifier }),
  };
};

const negatedIf = (negated: boolean, part: Condition): Condition => (negated ? { kind: 'not', part } : part);

/** `author=is.null` asks for a related row by its name in `select`; null where the field is no such name. */
export type RequestRelated = (name: string) => Condition | null;

const relatedTest = ({ field, test }: FilterAst, table: Table, requestRelated: RequestRelated): Condition | null => {
  if (test.kind !== 'is' || field.path.length > 0 || table.columns.has(field.name)) return null;
  if (test.what !== 'null' && test.what !== 'not_null') return null;
  const related = requestRelated(field.name);
  if (related === null) return null;
  return negatedIf(test.what === 'null', related);
};

/** @throws {DataError} 42703 (400) for a column that the table does not have */
export const resolveCondition = (ast: ConditionAst, table: Table, requestRelated: RequestRelated): Condition => {
  if (ast.kind === 'filter') {
    const part = relatedTest(ast, table, requestRelated) ?? testedBy(ast.test, valueOf(table, ast.field));
    return negatedIf(ast.negated, part);
  }
  const parts = ast.parts.map((part) => resolveCondition(part, table, requestRelated));
  return negatedIf(ast.negated, { kind: ast.operator, parts });
};

/** All of them; null when there are none. */
export const allOf = (parts: readonly Condition[]): Condition | null => {
  const [first] = parts;
  if (first === undefined) return null;
  return parts.length === 1 ? first : { kind: 'and', parts };
};
