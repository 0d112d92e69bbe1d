import { DataError } from '#domain/data-api/errors.ts';
import type { Condition, ReadPlan } from '../data-api.ts';
import type { Column, DataSchema, Table } from '../schema/schema.ts';
import type { ParsedQuery } from './grammar/grammar.ts';
import { nearest } from '#lib/nearest.ts';
import { readPlan, returningPlan, type Window, parseRange, within } from './read-plan.ts';
import { type Work, maxRows } from './request.ts';

/** @throws {DataError} PGRST205 */
export const tableOf = ({ name: schema, tables }: DataSchema, name: string): Table => {
  const table = tables.get(name);
  if (table !== undefined) return table;
  const close = nearest(name, tables.keys());
  throw new DataError(404, 'PGRST205', `Could not find the table '${schema}.${name}' in the schema cache`, {
    hint: close === null ? null : `Perhaps you meant the table '${schema}.${close}'`,
  });
};

/** @throws {DataError} PGRST204 */
export const columnsOf = (table: Table, names: Iterable<string>): Column[] =>
  [...names].map((name) => {
    const column = table.columns.get(name);
    if (column !== undefined) return column;
    const close = nearest(name, table.columns.keys());
    throw new DataError(400, 'PGRST204', `Could not find the '${name}' column of '${table.name}' in the schema cache`, {
      hint: close === null ? null : `Perhaps you meant the column '${close}'`,
    });
  });

/** The parts of a query about a table: filters, fields, order, page. */
export const planOf = ({ schema, query }: Work, table: Table): ReadPlan =>
  readPlan(schema, table, query, { maxLimit: maxRows });

/** Whether a page is asked for of the rows themselves, and not of related ones. */
export const hasPage = (limits: ParsedQuery['limit']): boolean => limits.some(({ path }) => path.length === 0);

/** The representation of the written rows. */
export const returnedPlan = ({ schema, query }: Work, table: Table): ReadPlan => {
  const plan = returningPlan(schema, table, query, { maxLimit: maxRows });
  const page = readPlan(schema, table, query, { maxLimit: maxRows });
  return hasPage(query.limit) ? { ...plan, limit: page.limit, offset: page.offset } : plan;
};

/** The plan's page, narrowed to that of the `Range` header where there is one; the header is for reads only. */
export const pageOf = ({ request }: Work, { offset, limit }: ReadPlan): Window => {
  const range = request.method === 'GET' || request.method === 'HEAD' ? parseRange(request.header('range')) : null;
  const requested = range === null ? { offset, limit } : within({ offset, limit }, range);
  return { offset: requested.offset, limit: Math.min(requested.limit ?? maxRows, maxRows) };
};

/**
 * The condition that a row's address stands for.
 * @param id values of the primary key, joined by commas where it has several columns
 * @throws {DataError} 404 when no row can have this address
 */
export const rowCondition = (table: Table, id: string): Condition => {
  const columns = columnsOf(table, table.primaryKey);
  const values = columns.length === 1 ? [id] : id.split(',');
  if (columns.length === 0 || values.length !== columns.length) {
    throw new DataError(404, 'not_found', 'No such row.', {
      hint:
        columns.length === 0
          ? `The table '${table.name}' has no primary key.`
          : `The primary key is (${table.primaryKey.join(', ')}): join its values by commas.`,
    });
  }
  const parts = columns.map((column, index): Condition => ({
    kind: 'compare',
    value: { column, path: [] },
    operator: 'eq',
    operand: values[index] ?? '',
  }));
  return { kind: 'and', parts };
};

export const bothConditions = (one: Condition | null, other: Condition | null): Condition | null => {
  if (one === null || other === null) return one ?? other;
  return { kind: 'and', parts: [one, other] };
};
