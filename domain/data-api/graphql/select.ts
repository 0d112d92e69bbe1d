import type { Column } from '../schema/schema.ts';
import { type SqlBuilder, quoteName, quoteText } from '../sql/sql.ts';
import { conditionSql, relatedSource } from '../sql/conditions.ts';
import { type Making, type SelectedField, argument, collect } from './collect.ts';
import { defaultLimit } from './document.ts';
import { failure, type GraphTable, type Relation } from './model.ts';
import { scalarText, isFields, plainNumber } from './inputs.ts';
import { conditionOf } from './where.ts';
import type { SelectionSetNode } from 'graphql';

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
const columnsOf = (table: GraphTable, value: unknown, { inputs }: Making): Column[] => {
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
const limitOf = (selected: SelectedField, { inputs }: Making): number | null => {
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
const selectSql = (
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

interface AggregatePlace {
  readonly level: number;
  readonly rows: number;
}

interface Aggregated {
  readonly selected: SelectedField;
  readonly table: GraphTable;
  /** Created for each part of the answer that reads the rows. */
  readonly source: () => Source;
  readonly place: AggregatePlace;
  /** Writes `nodes`. */
  readonly nodesSql: (
    listed: {
      readonly selected: SelectedField;
      readonly table: GraphTable;
      readonly source: Source;
      readonly place: AggregatePlace;
    },
    nodes: SelectedField,
    making: Making,
  ) => string;
}

/** An object of named expressions, as JSON. */
const objectSql = (parts: readonly (readonly [key: string, sql: string])[], { builder }: Making): string => {
  const row = builder.alias();
  const list = parts.map(([key, sql]) => `${sql} as ${quoteName(key)}`).join(', ');
  return `(select row_to_json(${row}.*) from (select ${list}) ${row})`;
};

const countSql = (selected: SelectedField, table: GraphTable, rows: string, making: Making): string => {
  const columns = columnsOf(table, argument(selected, 'columns'), making).map((one) => columnSql(rows, one));
  const distinct = making.inputs.resolveVariables(argument(selected, 'distinct')) === true;
  if (columns.length === 0) return 'count(*)';
  return `count(${distinct ? 'distinct ' : ''}${columns.length === 1 ? columns[0] : `(${columns.join(', ')})`})`;
};

/** The aggregates of one SELECT; each has a name for those who read from it. */
const flatList = (): { readonly add: (sql: string) => string; readonly text: () => string } => {
  const found: string[] = [];
  return {
    add: (sql) => `c${found.push(sql)}`,
    text: () => ['count(*) as c0', ...found.map((sql, index) => `${sql} as c${index + 1}`)].join(', '),
  };
};

/** `aggregate { count sum { price } }`: computed side by side in one SELECT, then laid out as objects. */
const figuresSql = (figures: SelectedField, { selected, table, source, place }: Aggregated, making: Making): string => {
  const [rows, flat] = [making.builder.alias(), making.builder.alias()];
  const list = flatList();
  const inside = collect(figures.sets, making);
  making.budget.fields(inside.length, place.level + 2);
  const columnFigures = (one: SelectedField): string => {
    const parts = collect(one.sets, making).map(({ key, name }) => {
      if (name === '__typename') return [key, `${quoteText(`${table.name}_${one.name}_fields`)}::text`] as const;
      return [key, `${flat}.${list.add(`${one.name}(${columnSql(rows, { name })})`)}`] as const;
    });
    making.budget.fields(parts.length, place.level + 3);
    return objectSql(parts, making);
  };
  const outer = inside.map((one) => {
    if (one.name === '__typename') return [one.key, `${quoteText(`${table.name}_aggregate_fields`)}::text`] as const;
    if (one.name === 'count') return [one.key, `${flat}.${list.add(countSql(one, table, rows, making))}`] as const;
    return [one.key, columnFigures(one)] as const;
  });
  const object = objectSql(outer, making);
  const base = source();
  const all = selectSql({ selected, table, source: base }, `${base.alias}.*`, making, null);
  return `(select ${object} from (select ${list.text()} from (${all}) ${rows}) ${flat})`;
};

/** An expression: a `t_aggregate` as JSON. */
export const aggregateSql = (aggregated: Aggregated, making: Making): string => {
  const { selected, table, source, place, nodesSql } = aggregated;
  const parts = collect(selected.sets, making).map((one) => {
    if (one.name === '__typename') return [one.key, `${quoteText(`${table.name}_aggregate`)}::text`] as const;
    if (one.name === 'aggregate') return [one.key, figuresSql(one, aggregated, making)] as const;
    const nodes = { selected, table, source: source(), place: { ...place, level: place.level + 1 } };
    return [one.key, nodesSql(nodes, one, making)] as const;
  });
  making.budget.fields(parts.length, place.level + 1);
  // A relation's limit is that of `nodes` only when nodes are asked for: the figures are one row.
  limitOf(selected, making);
  return objectSql(parts, making);
};

/** Where in an operation fields stand. */
export interface Place {
  /** 1 for the fields of the root. */
  readonly level: number;
  /** How many rows there may be around each field. */
  readonly rows: number;
}

/** A relation's value, as JSON, for each row of `alias`. */
const relationSql = (relation: Relation, selected: SelectedField, { alias, place }: At, making: Making): string => {
  const { target, relationship, many } = relation;
  const source = relatedSource(relationship, target.table, alias, making.builder);
  return many
    ? listSql({ selected, table: target, source, place }, making)
    : oneSql({ sets: selected.sets, table: target, source, place }, making);
};

interface At {
  readonly alias: string;
  readonly place: Place;
}

const aggregated = /_aggregate$/;

const fieldSql = (table: GraphTable, selected: SelectedField, at: At, making: Making): string => {
  const { name } = selected;
  if (name === '__typename') return `${quoteText(table.name)}::text`;
  const column = table.columns.get(name);
  if (column) return columnSql(at.alias, column);
  const relation = table.relations.get(name);
  if (relation) return relationSql(relation, selected, at, making);
  const counted = table.relations.get(name.replace(aggregated, ''));
  if (!counted) throw failure('validation_failed', `${table.name} has no ${name}.`, selected.node);
  const { target, relationship } = counted;
  const source = (): Source => relatedSource(relationship, target.table, at.alias, making.builder);
  return aggregateSql({ selected, table: target, source, place: at.place, nodesSql }, making);
};

/** The select list for the objects of a table, from rows of `alias`. */
export const fieldsSql = (
  table: GraphTable,
  sets: readonly SelectionSetNode[],
  { alias, place }: At,
  making: Making,
): string => {
  const selected = collect(sets, making);
  const inner = { ...place, level: place.level + 1 };
  making.budget.fields(selected.length, inner.level);
  return selected
    .map((one) => `${fieldSql(table, one, { alias, place: inner }, making)} as ${quoteName(one.key)}`)
    .join(', ');
};

interface Listed {
  readonly selected: SelectedField;
  readonly table: GraphTable;
  readonly source: Source;
  readonly place: Place;
}

const rowsSql = ({ selected, table, source, place }: Listed, making: Making): string => {
  const rows = making.budget.rows(place.rows, limitOf(selected, making), source.joined === null);
  const list = fieldsSql(table, selected.sets, { alias: source.alias, place: { ...place, rows } }, making);
  return selectSql({ selected, table, source }, list, making);
};

/** An expression: the rows that a field asks for, as a JSON list. */
export const listSql = (listed: Listed, making: Making): string => {
  const rows = rowsSql(listed, making);
  const row = making.builder.alias();
  return `(select coalesce(json_agg(${row}.*), '[]'::json) from (${rows}) ${row})`;
};

/** The rows behind an aggregate: its arguments, the fields of `nodes`. */
const nodesSql = (listed: Listed, nodes: SelectedField, making: Making): string =>
  listSql({ ...listed, selected: { ...listed.selected, sets: nodes.sets } }, making);

/** An expression: the one row of a source, as a JSON object, or null. @param where a condition on it */
export const oneSql = (
  {
    sets,
    table,
    source,
    place,
    where,
  }: {
    readonly sets: readonly SelectionSetNode[];
    readonly table: GraphTable;
    readonly source: Source;
    readonly place: Place;
    readonly where?: string;
  },
  making: Making,
): string => {
  const list = fieldsSql(table, sets, { alias: source.alias, place }, making);
  const fits = [source.joined, where].filter((part) => typeof part === 'string');
  const filter = fits.length === 0 ? '' : ` where ${fits.join(' and ')}`;
  const row = making.builder.alias();
  return `(select row_to_json(${row}.*) from (select ${list} from ${source.from}${filter}) ${row})`;
};
