import type { Statement } from '#lib/postgres/bound-query.ts';
import { CallFault } from '../../runtimes/runtime.ts';

/** How parameters stand in SQL: `$1` (PostgreSQL), or `%s` (Python's drivers). */
type Style = 'percent' | 'numbered';

const badPercent = (found: string): CallFault =>
  new CallFault('TypeError', `"${found}" is no placeholder: parameters are written %s, a percent sign %%.`);

const fromPercent = (sql: string, count: number): string => {
  let used = 0;
  const text = sql.replaceAll(/%([\s\S]?)/g, (found: string, kind: string) => {
    if (kind === '%') return '%';
    if (kind !== 's') throw badPercent(found);
    used += 1;
    return `$${used}`;
  });
  if (used !== count) {
    throw new CallFault('TypeError', `The SQL has ${used} placeholders (%s), but ${count} parameters are given.`);
  }
  return text;
};

/**
 * SQL with `$n` for parameters. As in Python's drivers, every percent sign counts, also in literals, and none does when
 * no parameters are given at all.
 * @throws {CallFault}
 */
export const numbered = (sql: string, style: Style, params: readonly unknown[] | null): string =>
  style === 'percent' && params !== null ? fromPercent(sql, params.length) : sql;

// PostgreSQL cuts longer names, which then may be another table's.
const maxNameLength = 63;

/** @throws {CallFault} when nothing can bear the name */
const quotedName = (name: string, what: string): string => {
  if (name === '' || name.includes('\0') || Buffer.byteLength(name) > maxNameLength) {
    throw new CallFault('TypeError', `A name of a ${what} has 1 to ${maxNameLength} bytes, none of them NUL.`);
  }
  return `"${name.replaceAll('"', '""')}"`;
};

/** @throws {CallFault} */
const quotedColumn = (name: string): string => quotedName(name, 'column');

/**
 * `name` or `schema.name`, exactly as the table is called, capitals and all.
 * @throws {CallFault}
 */
const quotedTable = (name: string): string => {
  const parts = name.split('.');
  if (parts.length > 2) throw new CallFault('TypeError', 'A table is called "name" or "schema.name".');
  return parts.map((part) => quotedName(part, 'table')).join('.');
};

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
