import { type AnswerBody, jsonList, jsonObject } from '#domain/data-api/answer-body.ts';
import type { RunRows, TextRow } from '#domain/data-api/db.ts';
import type { Sql } from '#domain/data-api/plan.ts';
import { bodyOf, piecesSql } from '#domain/data-api/sql/pieces.ts';
import { type Making, type SelectedField, collect } from './collect.ts';
import { type Row, insertSql, keySql } from './changes.ts';
import { failure } from './failure.ts';
import { isFields } from './literals.ts';
import type { GraphTable, Relation } from './model.ts';
import { columnSql, tableSource } from './rows.ts';
import { oneSql } from './select.ts';

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
