import type { Field, OrderTerm, ReadPlan, RelationField } from '../data-api.ts';
import type { Relationship } from '../schema/schema.ts';
import { type SqlBuilder, showsNothing, quoteName, quoteText, aggregateSql, listSql, rowValueSql } from './sql.ts';
import { conditionSql, relatedSource, wholeCondition } from './conditions.ts';

/** One column of a SELECT, or all those of a row source (`key` null). */
interface Output {
  readonly key: string | null;
  readonly sql: string;
  /** `json` has no equality: to group by it, its text is compared. */
  readonly json?: boolean;
  /** Makes one value of those of a group. */
  readonly aggregate?: (sql: string) => string;
}

/** One SELECT on its way: what its fields find to join is collected in `joins`. */
interface Select {
  readonly plan: ReadPlan;
  readonly alias: string;
  readonly builder: SqlBuilder;
  readonly joins: string[];
  readonly grouped: boolean;
  /** Every column has to be known by its name: no star. */
  readonly named: boolean;
}

interface Source {
  readonly alias: string;
  readonly from: string;
  /** The condition that joins the rows to the outer ones; null at the root. */
  readonly joined: string | null;
}

export const isToOne = ({ kind }: Relationship): boolean => kind === 'many-to-one' || kind === 'one-to-one';

/** Aggregates of a to-one relation that is spread are those of the rows around it. */
const isAggregated = (plan: ReadPlan): boolean =>
  plan.fields.some((field) => {
    if (field.kind === 'value') return field.value.aggregate !== undefined;
    return field.kind === 'relation' && field.spread && isToOne(field.relationship) && isAggregated(field.plan);
  });

const allOutputs = ({ plan, alias, grouped, named }: Select): Output[] => {
  // A star keeps up with columns that were added a moment ago; GROUP BY needs their names.
  if (!grouped && !named) return [{ key: null, sql: `${alias}.*` }];
  return [...plan.table.columns.values()].map(({ name, baseType }) => ({
    key: name,
    sql: `${alias}.${quoteName(name)}`,
    json: baseType === 'json',
  }));
};

const valueOutput = ({ as, value }: Extract<Field, { kind: 'value' }>, alias: string): Output => {
  const sql = rowValueSql(value, alias);
  if (value.aggregate !== undefined) return { key: as, sql, aggregate: (inner) => aggregateSql(value, inner) };
  const whole = value.path.length === 0 && value.cast === undefined;
  return { key: as, sql, json: whole && value.column?.baseType === 'json' };
};

/** A related row or the list of them, as one JSON value. */
const relatedJson = ({ relationship, plan }: RelationField, { alias, builder }: Select): string => {
  const rows = selectFrom(plan, relatedSource(relationship, plan.table, alias, builder), builder);
  const row = builder.alias();
  const json = isToOne(relationship) ? `row_to_json(${row}.*)` : listSql(row);
  return `select ${json} as "j" from (${rows}) ${row}`;
};

/**
 * A subquery in the select list, and no join: with ORDER BY and LIMIT the server makes it for the rows of the page
 * only. A group cannot hold one, so there it is joined.
 */
const relatedOutput = (field: RelationField, select: Select): Output => {
  const json = relatedJson(field, select);
  if (!select.grouped) return { key: field.as, sql: `(${json})`, json: true };
  const alias = select.builder.alias();
  select.joins.push(` left join lateral (${json}) ${alias} on true`);
  return { key: field.as, sql: `${alias}."j"`, json: true };
};

/** The outputs of a relation that is spread, as columns by position: two of them may have the same key. */
const spreadSource = ({ relationship, plan }: RelationField, select: Select, grouped: boolean): Spread => {
  const { builder } = select;
  const source = relatedSource(relationship, plan.table, select.alias, builder);
  const { outputs, text } = written(plan, source, builder, { grouped, named: true });
  const alias = builder.alias();
  const columns = outputs.map((_, index) => `c${index}`);
  return { outputs, alias, columns, from: `(${text}) ${alias}(${columns.join(', ')})` };
};

interface Spread {
  readonly outputs: readonly Output[];
  readonly alias: string;
  readonly columns: readonly string[];
  readonly from: string;
}

const spreadOne = (field: RelationField, select: Select): Output[] => {
  const { outputs, alias, from } = spreadSource(field, select, false);
  select.joins.push(` left join lateral ${from} on true`);
  return outputs.map((output, index) => ({ ...output, sql: `${alias}.c${index}` }));
};

const spreadMany = (field: RelationField, select: Select): Output[] => {
  const { outputs, alias: rows, columns, from } = spreadSource(field, select, isAggregated(field.plan));
  const alias = select.builder.alias();
  const lists = columns.map((column) => `coalesce(json_agg(${rows}.${column}), '[]'::json) as ${column}`);
  select.joins.push(` left join lateral (select ${lists.join(', ')} from ${from}) ${alias} on true`);
  return outputs.map(({ key }, index) => ({ key, sql: `${alias}.c${index}`, json: true }));
};

const relationOutputs = (field: RelationField, select: Select): Output[] => {
  if (showsNothing(field.plan)) return [];
  if (!field.spread) return [relatedOutput(field, select)];
  return isToOne(field.relationship) ? spreadOne(field, select) : spreadMany(field, select);
};

const outputsOf = (field: Field, select: Select): Output[] => {
  switch (field.kind) {
    case 'all':
      return allOutputs(select);
    case 'value':
      return [valueOutput(field, select.alias)];
    case 'literal':
      return [{ key: field.as, sql: `${quoteText(field.text)}::text` }];
    case 'relation':
      return relationOutputs(field, select);
  }
};

const groupable = ({ sql, json }: Output): string => (json === true ? `${sql}::text` : sql);

const outputSql = (output: Output, grouped: boolean): string => {
  const { key, sql, json, aggregate } = output;
  if (key === null) return sql;
  const whole = grouped && json === true ? `${sql}::text::json` : sql;
  return `${grouped && aggregate !== undefined ? aggregate(sql) : whole} as ${quoteName(key)}`;
};

const orderSql = (
  { value, through, throughTable, direction, nulls }: OrderTerm,
  { alias, builder }: Select,
): string => {
  const ways = `${direction === null ? '' : ` ${direction}`}${nulls === null ? '' : ` nulls ${nulls}`}`;
  if (through === undefined || throughTable === undefined) return `${rowValueSql(value, alias)}${ways}`;
  const related = relatedSource(through, throughTable, alias, builder);
  return `(select ${rowValueSql(value, related.alias)} from ${related.from} where ${related.joined})${ways}`;
};

const whereSql = (plan: ReadPlan, { alias, joined }: Source, builder: SqlBuilder): string => {
  const condition = wholeCondition(plan);
  const parts = [joined, condition === null ? null : conditionSql(condition, alias, builder)];
  const present = parts.filter((part) => part !== null);
  return present.length === 0 ? '' : ` where ${present.join(' and ')}`;
};

const groupSql = (outputs: readonly Output[]): string => {
  const keys = outputs.filter(({ aggregate }) => aggregate === undefined).map(groupable);
  return keys.length === 0 ? '' : ` group by ${keys.join(', ')}`;
};

/**
 * A number and no parameter: otherwise the server would plan each page, since no plan for any number is as good. An
 * exception are policies, which the server takes for conditions that nearly no row meets: it would expect fewer rows
 * than the page holds, read and sort all of them, and evaluate the policy for each.
 */
const limitSql = ({ table, limit }: ReadPlan, { builder }: Select): string => {
  if (limit === null) return '';
  return ` limit ${table.rowSecurity ? builder.bind(String(limit)) : limit}`;
};

/** Which rows, in which order. */
const pageSql = (plan: ReadPlan, select: Select): string => {
  const { order, offset } = plan;
  const terms = order.map((term) => orderSql(term, select));
  const sorted = terms.length === 0 ? '' : ` order by ${terms.join(', ')}`;
  const max = limitSql(plan, select);
  return sorted + max + (offset === 0 ? '' : ` offset ${select.builder.bind(String(offset))}`);
};

interface Written {
  readonly outputs: readonly Output[];
  readonly text: string;
}

const written = (
  plan: ReadPlan,
  source: Source,
  builder: SqlBuilder,
  how: Pick<Select, 'grouped' | 'named'>,
): Written => {
  const { grouped } = how;
  const select: Select = { plan, alias: source.alias, builder, joins: [], ...how };
  const outputs = plan.fields.flatMap((field) => outputsOf(field, select));
  const list = outputs.map((output) => outputSql(output, grouped)).join(', ');
  // The order of writing is the order of the parameters: select list, joins, condition, page.
  const rows = `${source.from}${select.joins.join('')}${whereSql(plan, source, builder)}`;
  const grouping = grouped ? groupSql(outputs) : '';
  return { outputs, text: `select ${list} from ${rows}${grouping}${pageSql(plan, select)}` };
};

const selectFrom = (plan: ReadPlan, source: Source, builder: SqlBuilder, named = false): string =>
  written(plan, source, builder, { grouped: isAggregated(plan), named }).text;

export interface SelectOptions {
  readonly builder: SqlBuilder;
  /** The source in place of the table: the name of a CTE, or a call of a function, as SQL. */
  readonly from?: string;
  /** Lists the columns that the schema knows instead of a star. */
  readonly named?: boolean;
}

/**
 * A SELECT whose columns are the keys of the plan's objects, related rows within them as JSON.
 * @returns text without a semicolon, to stand in parentheses
 */
export const selectRows = (
  plan: ReadPlan,
  { builder, from = plan.table.sql, named = false }: SelectOptions,
): string => {
  const alias = builder.alias();
  return selectFrom(plan, { alias, from: `${from} ${alias}`, joined: null }, builder, named);
};

/** The condition alone, with what `!inner` relations ask for: `exists`-style counting without order and page. */
export const matchingRows = (plan: ReadPlan, { builder, from = plan.table.sql }: SelectOptions): string => {
  if (isAggregated(plan)) return selectRows({ ...plan, order: [], limit: null, offset: 0 }, { builder, from });
  const alias = builder.alias();
  return `select from ${from} ${alias}${whereSql(plan, { alias, from, joined: null }, builder)}`;
};
