import type { Statement } from '#lib/postgres/bound-query.ts';
import { CallFault } from '../../runtimes/runtime.ts';
import { quotedColumn, quotedTable } from './names.ts';

export type Row = Readonly<Record<string, unknown>>;

export interface Condition {
  /** SQL text. */
  readonly where: string;
  readonly params: readonly unknown[];
}

/** On lines of its own: it may end in a comment. */
const whereClause = (where: string): string => `where (\n${where}\n)`;

const columnsOf = (rows: readonly Row[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))];

const list = (columns: readonly string[], prefix = ''): string =>
  columns.map((column) => prefix + quotedColumn(column)).join(', ');

/**
 * No row, of a table's type. Not by the type's name: that of a table called "line" or "date" is found to be the
 * server's own. Not `t` alone either: a column may be called so.
 */
const noRowOf = (table: string): string => `(select coalesce(t.*) from ${table} as t where false)`;

/**
 * The values go as one JSON parameter that the server reads by the columns' own types. A column that only some of the
 * rows name is NULL in the others: giving each its default would take a statement for every set of names.
 */
export const insertStatement = (table: string, rows: readonly Row[]): Statement => {
  const into = quotedTable(table);
  const columns = columnsOf(rows);
  const params = [JSON.stringify(rows)];
  if (columns.length === 0) {
    return {
      sql: `insert into ${into} select from pg_catalog.json_array_elements($1::pg_catalog.json) returning *`,
      params,
    };
  }
  const sql = `insert into ${into} (${list(columns)}) select ${list(columns, 'given.')}
    from pg_catalog.json_populate_recordset(${noRowOf(into)}, $1::pg_catalog.json) as given returning *`;
  return { sql, params };
};

export const selectStatement = (table: string, condition: Condition | null): Statement => {
  const sql = `select * from ${quotedTable(table)}`;
  if (condition === null) return { sql, params: [] };
  return { sql: `${sql} ${whereClause(condition.where)}`, params: condition.params };
};

/** @throws {CallFault} when there is nothing to change */
export const updateStatement = (table: string, row: Row, { where, params }: Condition): Statement => {
  const columns = Object.keys(row);
  if (columns.length === 0) throw new CallFault('TypeError', 'db.update needs at least one column to set.');
  const given = quotedTable(table);
  // The condition's parameters come first: it counts them from 1.
  const data = `$${params.length + 1}::pg_catalog.json`;
  const sql = `update ${given} set (${list(columns)}) = (select ${list(columns, 'given.')}
    from pg_catalog.json_populate_record(${noRowOf(given)}, ${data}) as given) ${whereClause(where)}`;
  return { sql, params: [...params, JSON.stringify(row)] };
};

export const removeStatement = (table: string, { where, params }: Condition): Statement => ({
  sql: `delete from ${quotedTable(table)} ${whereClause(where)}`,
  params,
});
