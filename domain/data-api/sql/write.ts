import type { Column, Table } from '../schema/schema.ts';
import { type SqlBuilder, quoteName, quoteText } from './sql.ts';

type Bind = SqlBuilder['bind'];

/**
 * JSON objects to be written; their text goes to the server as it came, so that numbers are as exact as it can hold.
 */
export interface Source {
  readonly json: string;
  /** An array of objects, and not one object. */
  readonly many: boolean;
  readonly rows: number;
}

export interface InsertPlan {
  readonly table: Table;
  /** The written values; none: every column gets its default. */
  readonly columns: readonly Column[];
  readonly source: Source;
  /** The value of a column whose key an object lacks. */
  readonly missing: 'null' | 'default';
  /** The handling of a row that exists already, by these columns. Null: it is an error. */
  readonly conflict: { readonly columns: readonly string[]; readonly action: 'merge' | 'ignore' } | null;
  /** Only objects with these values (SQL) are written: of PUT, whose address says which row it means. */
  readonly only?: ReadonlyMap<string, string>;
}

export interface UpdatePlan {
  readonly table: Table;
  readonly columns: readonly Column[];
  readonly source: Source;
}

const list = (columns: readonly Column[], prefix = ''): string =>
  columns.map((column) => `${prefix}${quoteName(column.name)}`).join(', ');

/** `json_to_record($1) as r("id" integer, …)`: the server reads each value as its column's type. */
const records = ({ json, many }: Source, columns: readonly Column[], bind: Bind): string => {
  const typed = columns.map((column) => `${quoteName(column.name)} ${column.type}`).join(', ');
  return `${many ? 'json_to_recordset' : 'json_to_record'}(${bind(json)}::json) as r(${typed})`;
};

// How introspection writes the default of an identity column.
const identity = 'generated as identity';

/** Returns the default of a column as an expression: INSERT … SELECT has no DEFAULT. */
const defaultOf = (table: Table, { name, default: given }: Column): string => {
  if (given === null) return 'null';
  if (given !== identity) return `(${given})`;
  return `nextval(pg_get_serial_sequence(${quoteText(table.sql)}, ${quoteText(name)})::regclass)`;
};

/** Each object beside its record, so that it can be asked which keys it has. */
const withDefaults = ({ table, columns, source }: InsertPlan, bind: Bind): string => {
  const values = columns.map((column) => {
    const has = `e.object ? ${quoteText(column.name)}`;
    return `case when ${has} then r.${quoteName(column.name)} else ${defaultOf(table, column)} end as ${quoteName(column.name)}`;
  });
  const typed = columns.map((column) => `${quoteName(column.name)} ${column.type}`).join(', ');
  const objects = source.many
    ? `json_array_elements(${bind(source.json)}::json)`
    : `(select ${bind(source.json)}::json)`;
  return `select ${values.join(', ')} from ${objects} j(value),
    lateral (select j.value::jsonb) e(object), lateral json_to_record(j.value) r(${typed})`;
};

const conflictOf = ({ conflict, columns }: InsertPlan): string => {
  if (conflict === null) return '';
  const on = ` on conflict (${conflict.columns.map(quoteName).join(', ')}) do `;
  if (conflict.action === 'ignore' || columns.length === 0) return `${on}nothing`;
  const sets = columns.map((column) => `${quoteName(column.name)} = excluded.${quoteName(column.name)}`);
  return `${on}update set ${sets.join(', ')}`;
};

const onlyOf = (only: ReadonlyMap<string, string> | undefined): string =>
  only === undefined
    ? ''
    : ` where ${[...only].map(([column, value]) => `r.${quoteName(column)} = ${value}`).join(' and ')}`;

/** Rows of nothing but defaults. */
const emptyRows = ({ table, source }: InsertPlan): string => {
  const [first] = table.columns.keys();
  if (source.rows === 0) return `select where false`;
  if (source.rows === 1 || first === undefined) return 'default values';
  return `(${quoteName(first)}) values ${'(default), '.repeat(source.rows - 1)}(default)`;
};

const rowsOf = (plan: InsertPlan, bind: Bind): string => {
  const { columns, source, missing, only } = plan;
  if (columns.length === 0) return emptyRows(plan);
  const rows =
    missing === 'default'
      ? withDefaults(plan, bind)
      : `select ${list(columns, 'r.')} from ${records(source, columns, bind)}${onlyOf(only)}`;
  return `(${list(columns)}) ${rows}`;
};

/** The alias of the written table in WHERE and RETURNING. */
export const written = 'w';

/** @param returning what stands behind RETURNING */
export const insertSql = (plan: InsertPlan, bind: Bind, returning: string): string =>
  `insert into ${plan.table.sql} as ${written} ${rowsOf(plan, bind)}${conflictOf(plan)} returning ${returning}`;

/** Which rows: a condition on `written`; null: all. */
type Where = string | null;

const whereSql = (where: Where): string => (where === null ? '' : ` where ${where}`);

/** The rows as they are, where a change has nothing to set. */
export const unchangedSql = (table: Table, where: Where, returning: string): string =>
  `select ${returning} from ${table.sql} as ${written}${whereSql(where)}`;

/**
 * The new values are read once, by a subquery that knows nothing of the table: its columns can bear the same names. Not
 * `set (a, b) = (select …)`: the server's parser reads that subquery again for each column (1,600 of them: over 512
 * MB).
 * @param returning what stands behind RETURNING
 */
export const updateSql = (plan: UpdatePlan, bind: Bind, where: Where, returning: string): string => {
  const { table, columns, source } = plan;
  // Nothing to set: no row is changed, and none comes back.
  if (columns.length === 0) return `${unchangedSql(table, where, returning)} limit 0`;
  const values = `select ${list(columns, 'r.')} from ${records(source, columns, bind)} limit 1`;
  const sets = columns.map(({ name }) => `${quoteName(name)} = plinth_given.${quoteName(name)}`);
  return `update ${table.sql} as ${written} set ${sets.join(', ')} from (${values}) plinth_given${whereSql(where)} returning ${returning}`;
};

/** @param returning what stands behind RETURNING */
export const deleteSql = (table: Table, where: Where, returning: string): string =>
  `delete from ${table.sql} as ${written}${whereSql(where)} returning ${returning}`;
