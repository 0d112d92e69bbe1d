import type { Condition } from '#domain/data-api/plan.ts';
import type { Column } from '#domain/data-api/schema/types.ts';
import { conditionSql } from '#domain/data-api/sql/conditions.ts';
import { quoteName } from '#domain/data-api/sql/names.ts';
import type { Making } from './collect.ts';
import { failure } from './failure.ts';
import { encoderOf } from './inputs.ts';
import { type Fields, isFields } from './literals.ts';
import type { GraphTable } from './model.ts';
import { columnSql } from './rows.ts';
import { isJson } from './scalars.ts';
import { conditionOf, constantOf } from './where.ts';

/** The values of one row: columns and, in nested inserts, relations. */
export type Row = Fields;

/** The columns that rows name, in the table's order; the first where they name none: it gets its default. */
const columnsOf = (table: GraphTable, rows: readonly Row[]): Column[] => {
  const columns = [...table.table.columns.values()];
  const named = columns.filter(({ name }) => rows.some((row) => row[name] !== undefined));
  return named.length > 0 ? named : columns.slice(0, 1);
};

/** Rows of one form, as JSON in one parameter: the statement is the same however many rows there are. */
const recordsSql = (columns: readonly Column[], rows: readonly Row[], { inputs, builder }: Making): string => {
  // As text for the column's own type to read; JSON is JSON already.
  const jsonOf = (row: Row, column: Column): string => {
    const text = inputs.text(row[column.name], encoderOf(column));
    return text !== null && isJson(column.baseType) ? text : JSON.stringify(text);
  };
  const objectOf = (row: Row): string =>
    `{${columns.map((column) => `${JSON.stringify(column.name)}:${jsonOf(row, column)}`).join(',')}}`;
  const objects = `[${rows.map(objectOf).join(',')}]`;
  const typed = columns.map(({ name, type }) => `${quoteName(name)} ${type}`).join(', ');
  const alias = builder.alias();
  const values = columns.map((column) => columnSql(alias, column)).join(', ');
  return `select ${values} from json_to_recordset(${builder.bind(objects)}::json) as ${alias}(${typed})`;
};

/** Some rows lack what others have, and get the columns' defaults. */
const valuesSql = (columns: readonly Column[], rows: readonly Row[], { inputs, builder }: Making): string => {
  const valueSql = (row: Row, column: Column): string =>
    row[column.name] === undefined ? 'default' : builder.bind(inputs.text(row[column.name], encoderOf(column)));
  return `values ${rows.map((row) => `(${columns.map((one) => valueSql(row, one)).join(', ')})`).join(', ')}`;
};

const isUniform = (columns: readonly Column[], rows: readonly Row[]): boolean =>
  rows.every((row) => columns.every(({ name }) => row[name] !== undefined));

const named = (value: unknown, { inputs }: Making): string[] => {
  const names = inputs.resolveVariables(value) ?? [];
  return (Array.isArray(names) ? names : [names]).map((name) => String(inputs.resolveVariables(name)));
};

const conflictSql = (table: GraphTable, alias: string, value: unknown, making: Making): string => {
  const conflict = making.inputs.resolveVariables(value) ?? null;
  if (!isFields(conflict)) return '';
  const target = table.constraints.get(String(making.inputs.resolveVariables(conflict['constraint'])));
  if (target === undefined) throw failure('validation_failed', `${table.name} has no such constraint.`);
  const on = ` on conflict (${target.map(quoteName).join(', ')}) do `;
  const sets = named(conflict['update_columns'], making).map(
    (name) => `${quoteName(name)} = excluded.${quoteName(name)}`,
  );
  if (sets.length === 0) return `${on}nothing`;
  const where = making.inputs.resolveVariables(conflict['where']) ?? null;
  const only = where === null ? '' : ` where ${conditionSql(conditionOf(table, where, making), alias, making.builder)}`;
  return `${on}update set ${sets.join(', ')}${only}`;
};

/** An INSERT without RETURNING, and what it calls its table. */
export const insertSql = (
  table: GraphTable,
  rows: readonly Row[],
  onConflict: unknown,
  making: Making,
): { readonly text: string; readonly alias: string } => {
  const alias = making.builder.alias();
  const columns = columnsOf(table, rows);
  const source = isUniform(columns, rows) ? recordsSql(columns, rows, making) : valuesSql(columns, rows, making);
  const list = columns.map(({ name }) => quoteName(name)).join(', ');
  const conflict = conflictSql(table, alias, onConflict, making);
  return { alias, text: `insert into ${table.table.sql} as ${alias} (${list}) ${source}${conflict}` };
};

const fieldsIn = (value: unknown, { inputs }: Making): [string, unknown][] => {
  const found = inputs.resolveVariables(value) ?? null;
  return isFields(found) ? Object.entries(found) : [];
};

/** Returns the list after SET. */
const setsSql = (table: GraphTable, args: { set: unknown; inc: unknown }, alias: string, making: Making): string => {
  const { inputs, builder } = making;
  const sets = new Map<string, string>();
  const put = ([name, value]: [string, unknown], sql: (column: Column, bound: string) => string): void => {
    const column = table.columns.get(name);
    if (!column) return;
    if (sets.has(name)) throw failure('validation_failed', `${name} stands in both _set and _inc.`);
    const bound = builder.bind(inputs.text(value, encoderOf(column)));
    sets.set(name, `${quoteName(name)} = ${sql(column, bound)}`);
  };
  for (const entry of fieldsIn(args.set, making)) put(entry, (_column, bound) => bound);
  for (const entry of fieldsIn(args.inc, making))
    put(entry, (column, bound) => `${columnSql(alias, column)} + ${bound}`);
  if (sets.size === 0) throw failure('validation_failed', 'Neither _set nor _inc names a column.');
  return [...sets.values()].join(', ');
};

/** Which rows a change is about: a condition, or the values of their key. */
export type Which = { readonly where: unknown } | { readonly key: Fields };

// A condition that was left empty by mistake would change everything.
const chosen = (table: GraphTable, where: unknown, making: Making): Condition => {
  const condition = conditionOf(table, where, making);
  if (constantOf(condition) === true)
    throw failure('validation_failed', `where holds for every row of ${table.name}.`, undefined, howToSayAll(table));
  return condition;
};

const howToSayAll = (table: GraphTable): string => {
  const columns = [...table.columns.values()];
  const never = table.key[0] ?? columns.find(({ nullable }) => !nullable);
  const name = (never ?? columns[0])?.name ?? '';
  const all = never
    ? `{${name}: {_is_null: false}}`
    : `{_or: [{${name}: {_is_null: true}}, {${name}: {_is_null: false}}]}`;
  return `If all of them are meant: where: ${all}.`;
};

const whichSql = (table: GraphTable, which: Which, alias: string, making: Making): string => {
  if ('where' in which) return conditionSql(chosen(table, which.where, making), alias, making.builder);
  return keySql(table, which.key, alias, making);
};

/** One row by its key. */
export const keySql = (
  table: GraphTable,
  key: Fields,
  alias: string,
  { inputs, builder }: Pick<Making, 'inputs' | 'builder'>,
): string =>
  table.key
    .map((column) => `${columnSql(alias, column)} = ${builder.bind(inputs.text(key[column.name], encoderOf(column)))}`)
    .join(' and ');

/** An UPDATE without RETURNING. */
export const updateSql = (
  table: GraphTable,
  args: { readonly set: unknown; readonly inc: unknown; readonly which: Which },
  making: Making,
): { readonly text: string; readonly alias: string } => {
  const alias = making.builder.alias();
  const sets = setsSql(table, args, alias, making);
  const which = whichSql(table, args.which, alias, making);
  return { alias, text: `update ${table.table.sql} as ${alias} set ${sets} where ${which}` };
};

/** A DELETE without RETURNING. */
export const deleteSql = (
  table: GraphTable,
  which: Which,
  making: Making,
): { readonly text: string; readonly alias: string } => {
  const alias = making.builder.alias();
  return { alias, text: `delete from ${table.table.sql} as ${alias} where ${whichSql(table, which, alias, making)}` };
};
