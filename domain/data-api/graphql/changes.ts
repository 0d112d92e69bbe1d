import type { Condition, Sql, RunRows, TextRow } from '../data-api.ts';
import type { Column } from '../schema/schema.ts';
import { conditionSql } from '../sql/conditions.ts';
import { quoteName, bodyOf, piecesSql, quoteText, fetchable } from '../sql/sql.ts';
import { type Making, type SelectedField, collect } from './collect.ts';
import { failure, type GraphTable, type Relation } from './model.ts';
import { encoderOf, type Fields, isFields, isJson } from './inputs.ts';
import { columnSql, tableSource, oneSql, fieldsSql } from './select.ts';
import { conditionOf, constantOf } from './where.ts';
import { type AnswerBody, jsonList, jsonObject } from '../answer-body.ts';
import type { SelectionSetNode } from 'graphql';

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

/** Statements of one request, run one after the other in one transaction. */
export interface Running {
  readonly rows: RunRows;
  /** A fresh builder for each statement, over the same inputs. */
  readonly making: () => Making;
  /** The statement, its variables in their places. */
  readonly finish: (text: string, making: Making) => Sql;
}

interface Part {
  readonly relation: Relation;
  readonly rows: readonly unknown[];
  readonly onConflict: unknown;
}

interface Parts {
  /** Rows that have to be there before this one, because it refers to them. */
  readonly before: readonly Part[];
  readonly own: Row;
  readonly after: readonly Part[];
}

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

const partsOf = (table: GraphTable, value: unknown, { inputs }: Making): Parts => {
  const row = inputs.resolveVariables(value);
  const own: Record<string, unknown> = {};
  const [before, after]: [Part[], Part[]] = [[], []];
  for (const [name, given] of Object.entries(isFields(row) ? row : {})) {
    const relation = table.relations.get(name);
    if (!relation || table.columns.has(name)) own[name] = given;
    const part = relation && inputs.resolveVariables(given);
    if (!relation || !isFields(part)) continue;
    const data = inputs.resolveVariables(part['data']);
    const found = { relation, rows: asList(data), onConflict: part['on_conflict'] };
    (relation.relationship.holdsKey ? before : after).push(found);
  }
  return { before, own, after };
};

/** Whether rows bring related rows with them. */
export const isNested = (table: GraphTable, rows: readonly unknown[], { inputs }: Making): boolean =>
  rows.some((value) => {
    const row = inputs.resolveVariables(value);
    return isFields(row) && Object.keys(row).some((name) => table.relations.has(name));
  });

type Values = Readonly<Record<string, string | null>>;

/** Inserts one row and answers some of its columns; null when a conflict left none. */
const insertOwn = async (
  table: GraphTable,
  row: Row,
  { onConflict, columns }: { readonly onConflict: unknown; readonly columns: readonly string[] },
  running: Running,
): Promise<Values | null> => {
  const making = running.making();
  const { alias, text } = insertSql(table, [row], onConflict, making);
  const list = columns.map((name, index) => `${columnSql(alias, { name })}::text as c${index}`);
  const answers = columns.map((_name, index) => `(select c${index} from done)`);
  const returned = ['1 as n', ...list].join(', ');
  const sql = `with done as (${text} returning ${returned}) select ${['(select n::text from done)', ...answers].join(', ')}`;
  const [[count = null, ...values] = []]: readonly TextRow[] = await running.rows(running.finish(sql, making));
  if (count === null) return null;
  return Object.fromEntries(columns.map((name, index) => [name, values[index] ?? null]));
};

/** Takes a row's columns from another's, over a foreign key. */
const taken = (to: readonly string[], from: readonly string[], values: Values): Row =>
  Object.fromEntries(to.map((name, index) => [name, values[from[index] ?? ''] ?? null]));

const needed = (table: GraphTable, after: readonly Part[], more: readonly string[]): string[] => [
  ...new Set([
    ...table.key.map(({ name }) => name),
    ...after.flatMap(({ relation }) => relation.relationship.columns),
    ...more,
  ]),
];

interface Inserted {
  readonly values: Values | null;
  /** This row and all that came with it. */
  readonly count: number;
}

const insertBefore = async (part: Part, running: Running): Promise<{ row: Row; count: number }> => {
  const { relationship, target } = part.relation;
  const { values, count } = await insertDeep(target, part.rows[0], part.onConflict, {
    running,
    wanted: relationship.targetColumns,
  });
  if (values === null)
    throw failure('conflict', `No row of ${target.name} was inserted to refer to; name columns to update on conflict.`);
  return { row: taken(relationship.columns, relationship.targetColumns, values), count };
};

const insertAfter = async (part: Part, values: Values, running: Running): Promise<number> => {
  const { relationship, target } = part.relation;
  const link = taken(relationship.targetColumns, relationship.columns, values);
  let total = 0;
  for (const value of part.rows) {
    const row = running.making().inputs.resolveVariables(value);
    const linked = { ...(isFields(row) ? row : {}), ...link };
    const { count } = await insertDeep(target, linked, part.onConflict, { running, wanted: [] });
    total += count;
  }
  return total;
};

/**
 * Inserts a row, before it what it refers to, and after it what refers to it.
 * @throws {GraphQLError} when a conflict leaves nothing to refer to
 */
const insertDeep = async (
  table: GraphTable,
  value: unknown,
  onConflict: unknown,
  { running, wanted = [] }: { readonly running: Running; readonly wanted?: readonly string[] },
): Promise<Inserted> => {
  const { before, own, after } = partsOf(table, value, running.making());
  const row: Record<string, unknown> = { ...own };
  let count = 0;
  for (const part of before) {
    const parent = await insertBefore(part, running);
    Object.assign(row, parent.row);
    count += parent.count;
  }
  const values = await insertOwn(table, row, { onConflict, columns: needed(table, after, wanted) }, running);
  if (values === null) {
    if (after.length > 0) throw failure('conflict', `No row of ${table.name} was inserted for others to refer to.`);
    return { values, count };
  }
  for (const part of after) count += await insertAfter(part, values, running);
  return { values, count: count + 1 };
};

/** The row as it is once all of a nested insert is done, as JSON text; null where nothing was inserted. */
const readBack = async (
  table: GraphTable,
  values: Values | null,
  { selected, level }: { readonly selected: SelectedField; readonly level: number },
  running: Running,
): Promise<AnswerBody | null> => {
  if (values === null) return null;
  if (table.key.length === 0)
    throw failure(
      'validation_failed',
      `${table.name} has no primary key: what a nested insert left there cannot be shown.`,
    );
  const making = running.making();
  const source = tableSource(table, making.builder);
  const where = keySql(table, values, source.alias, making);
  const sql = oneSql({ sets: selected.sets, table, source, place: { level, rows: 1 }, where }, making);
  const answer = piecesSql(`select ${sql}::text as "body"`, [], making.builder);
  return bodyOf(await running.rows(running.finish(answer, making)));
};

interface Given {
  readonly objects: readonly unknown[];
  readonly onConflict: unknown;
}

/** `insert_t_one` with related rows. */
export const insertOneNested = async (
  table: GraphTable,
  { objects, onConflict }: Given,
  selected: SelectedField,
  running: Running,
): Promise<AnswerBody | null> => {
  const { values } = await insertDeep(table, objects[0], onConflict, { running });
  return readBack(table, values, { selected, level: 1 }, running);
};

/** `insert_t` with related rows. */
export const insertNested = async (
  table: GraphTable,
  { objects, onConflict }: Given,
  selected: SelectedField,
  running: Running,
): Promise<AnswerBody> => {
  const done: Inserted[] = [];
  for (const object of objects) done.push(await insertDeep(table, object, onConflict, { running }));
  const fields: (readonly [key: string, json: AnswerBody])[] = [];
  for (const one of collect(selected.sets, running.making())) {
    if (one.name === '__typename') fields.push([one.key, `"${table.name}_mutation_response"`]);
    else if (one.name === 'affected_rows')
      fields.push([one.key, String(done.reduce((sum, { count }) => sum + count, 0))]);
    else fields.push([one.key, jsonList(await returned(done, table, one, running))]);
  }
  return jsonObject(fields);
};

const returned = async (
  done: readonly Inserted[],
  table: GraphTable,
  selected: SelectedField,
  running: Running,
): Promise<AnswerBody[]> => {
  const rows: AnswerBody[] = [];
  for (const { values } of done) {
    const row = await readBack(table, values, { selected, level: 2 }, running);
    if (row !== null) rows.push(row);
  }
  return rows;
};

interface Change {
  readonly table: GraphTable;
  readonly alias: string;
  /** The statement without RETURNING. */
  readonly text: string;
}

/** The rows that a change left are in a CTE of this name. */
const changed = 'changed';

/**
 * Returns the list of RETURNING: no columns of the rows unless the answer shows them, because they require the right to
 * read.
 */
const withChanged = ({ alias, text }: Change, shows: boolean): string =>
  `with ${changed} as (${text} returning ${shows ? `${alias}.*` : '1'})`;

/** How many levels there are above the fields of a row, and how many rows are reckoned with. */
const place = (level: number) => ({ level, rows: 1 });

const rowsSql = ({ table }: Change, sets: readonly SelectionSetNode[], level: number, making: Making): string => {
  const [source, row] = [making.builder.alias(), making.builder.alias()];
  const list = fieldsSql(table, sets, { alias: source, place: place(level) }, making);
  return `(select ${list} from ${changed} ${source}) ${row}`;
};

const aliasOf = (rows: string): string => rows.slice(rows.lastIndexOf(' ') + 1);

const partSql = (one: SelectedField, change: Change, making: Making): string => {
  if (one.name === '__typename') return `${quoteText(`${change.table.name}_mutation_response`)}::text`;
  if (one.name === 'affected_rows') return `(select count(*) from ${changed})`;
  const rows = rowsSql(change, one.sets, 2, making);
  return `(select coalesce(json_agg(${aliasOf(rows)}.*), '[]'::json) from ${rows})`;
};

/** A statement that changes rows and answers the `t_mutation_response` as JSON text, in pieces. */
export const responseSql = (selected: SelectedField, change: Change, making: Making): string => {
  const parts = collect(selected.sets, making);
  making.budget.fields(parts.length, 2);
  const list = parts.map((one) => `${partSql(one, change, making)} as ${quoteName(one.key)}`).join(', ');
  const row = making.builder.alias();
  const shows = parts.some(({ name }) => name === 'returning');
  const answer = `select ${fetchable(`row_to_json(${row}.*)::text`)} as "body" from (select ${list}) ${row}`;
  return `${withChanged(change, shows)} ${piecesSql(answer, [], making.builder)}`;
};

/** A statement that changes one row at most and answers it as JSON text, in pieces, or null. */
export const rowSql = (selected: SelectedField, change: Change, making: Making): string => {
  const rows = rowsSql(change, selected.sets, 1, making);
  const body = fetchable(`row_to_json(${aliasOf(rows)}.*)::text`);
  const answer = `select (select ${body} from ${rows}) as "body"`;
  return `${withChanged(change, true)} ${piecesSql(answer, [], making.builder)}`;
};
