import { quoteName, quoteText } from '#domain/data-api/sql/names.ts';
import { type Making, type SelectedField, argument, collect } from './collect.ts';
import type { GraphTable } from './model.ts';
import { type Source, columnSql, columnsOf, limitOf, selectSql } from './rows.ts';

interface Place {
  readonly level: number;
  readonly rows: number;
}

interface Aggregated {
  readonly selected: SelectedField;
  readonly table: GraphTable;
  /** Created for each part of the answer that reads the rows. */
  readonly source: () => Source;
  readonly place: Place;
  /** Writes `nodes`. */
  readonly nodesSql: (
    listed: {
      readonly selected: SelectedField;
      readonly table: GraphTable;
      readonly source: Source;
      readonly place: Place;
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
