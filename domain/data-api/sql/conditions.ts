import type { Condition, ReadPlan, RelationField } from '../data-api.ts';
import type { Relationship, Table } from '../schema/schema.ts';
import {
  type SqlBuilder,
  arrayText,
  quoteName,
  quoteText,
  isSql,
  maxRelated,
  operatorSql,
  searchSql,
  rowValueSql,
} from './sql.ts';

type Compare = Extract<Condition, { kind: 'compare' }>;
type Search = Extract<Condition, { kind: 'search' }>;
type Related = Extract<Condition, { kind: 'related' }>;

const equalColumns = (left: string, leftColumns: readonly string[], right: string, rightColumns: readonly string[]) =>
  leftColumns.map((name, index) => `${left}.${quoteName(name)} = ${right}.${quoteName(rightColumns[index] ?? '')}`);

/** The rows that belong to a row of `outer`: what to read from, and what has to hold. */
export interface RelatedSource {
  readonly alias: string;
  readonly from: string;
  readonly joined: string;
}

/** @param outer the name of the row source that the relationship starts from */
export const relatedSource = (
  relationship: Relationship,
  table: Table,
  outer: string,
  builder: SqlBuilder,
): RelatedSource => {
  const alias = builder.alias();
  const { columns, targetColumns, junction } = relationship;
  if (junction === null) {
    const joined = equalColumns(alias, targetColumns, outer, columns).join(' and ');
    return { alias, from: `${table.sql} ${alias}`, joined };
  }
  const between = builder.alias();
  const far = equalColumns(alias, targetColumns, between, junction.farColumns).join(' and ');
  const near = equalColumns(between, junction.nearColumns, outer, columns).join(' and ');
  return {
    alias,
    from: `${table.sql} ${alias}, ${junction.sql} ${between}`,
    joined: `${far} and ${near}`,
  };
};

const compareSql = ({ value, operator, operand, quantifier }: Compare, alias: string, builder: SqlBuilder): string => {
  const right = builder.bind(operand);
  const quantified = quantifier === undefined ? right : `${quantifier} (${right})`;
  return `${rowValueSql(value, alias)} ${operatorSql[operator]} ${quantified}`;
};

const searchedSql = ({ value, how, language, operand }: Search, alias: string, builder: SqlBuilder): string => {
  const words = language === null ? '' : `${quoteText(language)}, `;
  const column = rowValueSql(value, alias);
  const isVector = value.column?.baseType === 'tsvector' && value.path.length === 0;
  const vector = isVector ? column : `to_tsvector(${words}${column})`;
  return `${vector} @@ ${searchSql[how]}(${words}${builder.bind(operand)})`;
};

const relatedSql = ({ relationship, table, where }: Related, alias: string, builder: SqlBuilder): string => {
  const related = relatedSource(relationship, table, alias, builder);
  const fits = where === null ? '' : ` and ${partSql(where, related.alias, builder)}`;
  return `exists (select 1 from ${related.from} where ${related.joined}${fits})`;
};

const joinedSql = ({ kind, parts }: { kind: 'and' | 'or'; parts: readonly Condition[] }, write: Write): string => {
  if (parts.length === 0) return kind === 'and' ? 'true' : 'false';
  return `(${parts.map(write).join(` ${kind} `)})`;
};

type Write = (condition: Condition) => string;

const partSql = (condition: Condition, alias: string, builder: SqlBuilder): string => {
  const write: Write = (part) => partSql(part, alias, builder);
  switch (condition.kind) {
    case 'and':
    case 'or':
      return joinedSql(condition, write);
    case 'not':
      return `not (${write(condition.part)})`;
    case 'compare':
      return compareSql(condition, alias, builder);
    case 'in':
      return `${rowValueSql(condition.value, alias)} = any (${builder.bind(arrayText(condition.operands))})`;
    case 'is':
      return `${rowValueSql(condition.value, alias)} is ${isSql[condition.what]}`;
    case 'search':
      return searchedSql(condition, alias, builder);
    case 'related':
      return relatedSql(condition, alias, builder);
  }
};

/**
 * How many related rows it asks for, those within such conditions included. Counts no further than one above the limit:
 * filters of ten levels that each name the next one several times are a tree without end.
 */
const countRelated = (condition: Condition): number => {
  const left = [condition];
  let count = 0;
  for (let one = left.pop(); one !== undefined && count <= maxRelated; one = left.pop()) {
    if (one.kind === 'related') {
      count += 1;
      if (one.where) left.push(one.where);
    } else if (one.kind === 'not') left.push(one.part);
    else if (one.kind === 'and' || one.kind === 'or') for (const part of one.parts) left.push(part);
  }
  return count;
};

/**
 * A condition on the row source `alias`.
 * @returns an expression that may stand beside `and`
 * @throws {DataError} 54001 when it asks too much of related rows
 */
export const conditionSql = (condition: Condition, alias: string, builder: SqlBuilder): string => {
  builder.relate(countRelated(condition));
  return partSql(condition, alias, builder);
};

const isInner = (field: ReadPlan['fields'][number]): field is RelationField => field.kind === 'relation' && field.inner;

/** All that a row has to fit: the plan's own condition, and that there are related rows where it asks for them. */
export const wholeCondition = (plan: ReadPlan): Condition | null => {
  const parts: Condition[] = plan.fields.filter(isInner).map((field) => ({
    kind: 'related',
    relationship: field.relationship,
    table: field.plan.table,
    where: wholeCondition(field.plan),
  }));
  if (plan.where !== null) parts.unshift(plan.where);
  const [first] = parts;
  if (first === undefined) return null;
  return parts.length === 1 ? first : { kind: 'and', parts };
};
