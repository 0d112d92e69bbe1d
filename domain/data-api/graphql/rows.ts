import type { Column } from '#domain/data-api/schema/types.ts';
import type { SqlBuilder } from '#domain/data-api/sql/builder.ts';
import { conditionSql, relatedSource } from '#domain/data-api/sql/conditions.ts';
import { quoteName } from '#domain/data-api/sql/names.ts';
import { type Making, type SelectedField, argument } from './collect.ts';
import { defaultLimit } from './budget.ts';
import { failure } from './failure.ts';
import { scalarText } from './inputs.ts';
import { isFields, plainNumber } from './literals.ts';
import type { GraphTable } from './model.ts';
import { conditionOf } from './where.ts';

/** Where rows come from: a table, a CTE, or what belongs to a row around. */
export interface Source {
  readonly alias: string;
  readonly from: string;
  /** The condition that joins them to the outer row; null at the root. */
  readonly joined: string | null;
}

export const columnSql = (alias: string, { name }: Pick<Column, 'name'>): string => `${alias}.${quoteName(name)}`;

export const tableSource = ({ table }: GraphTable, builder: SqlBuilder): Source => {
  const alias = builder.alias();
  return { alias, from: `${table.sql} ${alias}`, joined: null };
};

/** The columns that an argument lists by their names. */
export const columnsOf = (table: GraphTable, value: unknown, { inputs }: Making): Column[] => {
  const names = inputs.resolveVariables(value) ?? [];
  return (Array.isArray(names) ? names : [names]).flatMap(
    (name) => table.columns.get(String(inputs.resolveVariables(name))) ?? [],
  );
};

const ways: Readonly<Record<string, string>> = {
  asc: 'asc',
  desc: 'desc',
  asc_nulls_first: 'asc nulls first',
  asc_nulls_last: 'asc nulls last',
  desc_nulls_first: 'desc nulls first',
  desc_nulls_last: 'desc nulls last',
};

interface Term {
  readonly value: string;
  readonly way: string;
}

/** Terms of ORDER BY; by columns of a related row, too. */
const termsOf = (table: GraphTable, value: unknown, alias: string, making: Making): Term[] => {
  const found = making.inputs.resolveVariables(value) ?? {};
  if (Array.isArray(found)) return found.flatMap((one) => termsOf(table, one, alias, making));
  if (!isFields(found)) return [];
  return Object.entries(found).flatMap(([name, inner]) => {
    making.conditions.condition();
    const column = table.columns.get(name);
    if (column) return columnTerm(columnSql(alias, column), making.inputs.resolveVariables(inner));
    const relation = table.relations.get(name);
    if (!relation) return [];
    const {
      from,
      joined,
      alias: other,
    } = relatedSource(relation.relationship, relation.target.table, alias, making.builder);
    const through = (sql: string): string => `(select ${sql} from ${from} where ${joined})`;
    return termsOf(relation.target, inner, other, making).map((term) => ({ ...term, value: through(term.value) }));
  });
};

const columnTerm = (value: string, given: unknown): Term[] => {
  const way = ways[String(given)];
  return way === undefined ? [] : [{ value, way }];
};

/** @returns null without one. @throws {GraphQLError} when it is negative */
export const limitOf = (selected: SelectedField, { inputs }: Making): number | null => {
  const limit = plainNumber(inputs.resolveVariables(argument(selected, 'limit')) ?? null);
  if (limit === null) return null;
  if (typeof limit !== 'number' || limit < 0) throw failure('validation_failed', 'limit is negative.', selected.node);
  return limit;
};

const pageSql = (selected: SelectedField, limit: number | null, { inputs, builder }: Making): string => {
  const offset = inputs.text(argument(selected, 'offset'), scalarText);
  const max = limit === null ? '' : ` limit ${builder.bind(String(limit))}`;
  return max + (offset === null ? '' : ` offset ${builder.bind(offset)}`);
};

const whereSql = (table: GraphTable, where: unknown, source: Source, making: Making): string => {
  const given = making.inputs.resolveVariables(where) ?? null;
  const condition =
    given === null ? null : conditionSql(conditionOf(table, given, making), source.alias, making.builder);
  const parts = [source.joined, condition].filter((part) => part !== null);
  return parts.length === 0 ? '' : ` where ${parts.join(' and ')}`;
};

/**
 * A SELECT with what a field's arguments say: `where`, `order_by`, `distinct_on`, `limit`, `offset`.
 * @param list the select list
 * @param max where the field has no limit; null: as many as there are
 */
export const selectSql = (
  {
    selected,
    table,
    source,
  }: { readonly selected: SelectedField; readonly table: GraphTable; readonly source: Source },
  list: string,
  making: Making,
  max: number | null = defaultLimit,
): string => {
  const distinct = columnsOf(table, argument(selected, 'distinct_on'), making).map((one) =>
    columnSql(source.alias, one),
  );
  const head = distinct.length === 0 ? 'select' : `select distinct on (${distinct.join(', ')})`;
  const where = whereSql(table, argument(selected, 'where'), source, making);
  const order = termsOf(table, argument(selected, 'order_by'), source.alias, making);
  const sorted = order.length === 0 ? '' : ` order by ${order.map(({ value, way }) => `${value} ${way}`).join(', ')}`;
  const page = pageSql(selected, limitOf(selected, making) ?? max, making);
  return `${head} ${list} from ${source.from}${where}${sorted}${page}`;
};
