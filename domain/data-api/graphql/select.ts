import type { SelectionSetNode } from 'graphql';
import { relatedSource } from '#domain/data-api/sql/conditions.ts';
import { quoteName, quoteText } from '#domain/data-api/sql/names.ts';
import { aggregateSql } from './aggregate.ts';
import { type Making, type SelectedField, collect } from './collect.ts';
import { failure } from './failure.ts';
import type { GraphTable, Relation } from './model.ts';
import { type Source, columnSql, limitOf, selectSql } from './rows.ts';

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
