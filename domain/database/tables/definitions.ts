import { type ClientBase, escapeIdentifier, escapeLiteral } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { checkName, expressionSql, invalidField, typeSql } from './columns.ts';
import { type TableDescription, describeTable, nearestHint, requireTable } from './describe.ts';
import { type ColumnName, type SchemaChange, publicName, requireColumn } from './table-changes.ts';

/*
 * Each function here gives the statements of one change of the schema. Every name is quoted, every expression stands in
 * parentheses that it cannot end, and every type was read by the server's own parser of types.
 */

const list = (names: readonly string[]): string => names.map((name) => escapeIdentifier(name)).join(', ');

const known = (kind: string, name: string, names: readonly string[]): void => {
  if (names.includes(name)) return;
  throw new ServiceError('not_found', `There is no ${kind} ${JSON.stringify(name)}.`, nearestHint(name, names));
};

const describe = async (client: ClientBase, table: string): Promise<TableDescription> => {
  await requireTable(client, table);
  return describeTable(client, table);
};

const requireColumns = ({ columns }: TableDescription, wanted: readonly string[], path: string): void => {
  const names = columns.map(({ name }) => name);
  wanted.forEach((name, index) => {
    if (names.includes(name)) return;
    throw invalidField(`${path}.${index}`, `is no column: ${JSON.stringify(name)}`, nearestHint(name, names).hint);
  });
};

const commentSql = (on: string, comment: string | null): string =>
  `comment on ${on} is ${comment === null ? 'null' : escapeLiteral(comment)}`;

/** Refuses a change that changes nothing. */
const some = (statements: readonly string[]): readonly string[] => {
  if (statements.length > 0) return statements;
  throw new ServiceError('validation_failed', 'The body names nothing to change.');
};

export interface TablePatch {
  readonly name?: string | undefined;
  readonly comment?: string | null | undefined;
  readonly row_level_security?:
    | { readonly enabled?: boolean | undefined; readonly forced?: boolean | undefined }
    | undefined;
}

/** Renames a table, comments on it, switches its row-level security. */
export const alterTable =
  (table: string, { name, comment, row_level_security: rls = {} }: TablePatch): SchemaChange =>
  async (client) => {
    await requireTable(client, table);
    const at = publicName(table);
    const statements: string[] = [];
    if (rls.enabled !== undefined) {
      statements.push(`alter table ${at} ${rls.enabled ? 'enable' : 'disable'} row level security`);
    }
    if (rls.forced !== undefined)
      statements.push(`alter table ${at} ${rls.forced ? '' : 'no '}force row level security`);
    if (comment !== undefined) statements.push(commentSql(`table ${at}`, comment));
    if (name !== undefined) {
      checkName(name, 'name');
      statements.push(`alter table ${at} rename to ${escapeIdentifier(name)}`);
    }
    return some(statements);
  };

export interface ColumnPatch {
  readonly name?: string | undefined;
  readonly type?: string | undefined;
  /** The expression that makes the new values; without it the server casts. */
  readonly using?: string | undefined;
  /** An SQL expression; null takes it away. */
  readonly default?: string | null | undefined;
  readonly nullable?: boolean | undefined;
  readonly comment?: string | null | undefined;
}

const typeChange = async (client: ClientBase, { type, using }: ColumnPatch): Promise<string[]> => {
  if (type === undefined) {
    if (using !== undefined) throw invalidField('using', 'is possible only beside a type');
    return [];
  }
  const sql = await typeSql(client, type, 'type');
  return [`type ${sql}${using === undefined ? '' : ` using ${expressionSql(using, 'using')}`}`];
};

/** Renames a column, changes its type, default, NOT NULL and comment. */
export const alterColumn =
  (at: ColumnName, patch: ColumnPatch): SchemaChange =>
  async (client) => {
    await requireColumn(client, at);
    const [table, column] = [publicName(at.table), escapeIdentifier(at.column)];
    const parts = await typeChange(client, patch);
    const { name, nullable, default: expression, comment } = patch;
    if (expression !== undefined) {
      parts.push(expression === null ? 'drop default' : `set default ${expressionSql(expression, 'default')}`);
    }
    if (nullable !== undefined) parts.push(`${nullable ? 'drop' : 'set'} not null`);
    const statements =
      parts.length === 0
        ? []
        : [`alter table ${table} ${parts.map((part) => `alter column ${column} ${part}`).join(', ')}`];
    if (comment !== undefined) statements.push(commentSql(`column ${table}.${column}`, comment));
    if (name !== undefined) {
      checkName(name, 'name');
      statements.push(`alter table ${table} rename column ${column} to ${escapeIdentifier(name)}`);
    }
    return some(statements);
  };

interface NamedConstraint {
  readonly name?: string | undefined;
}

type Action = 'no action' | 'restrict' | 'cascade' | 'set null' | 'set default';

export type NewConstraint = NamedConstraint &
  (
    | { readonly kind: 'primary_key' | 'unique'; readonly columns: readonly string[] }
    | { readonly kind: 'check'; readonly expression: string }
    | {
        readonly kind: 'foreign_key';
        readonly columns: readonly string[];
        readonly references: { readonly table: string; readonly columns?: readonly string[] | undefined };
        readonly on_delete: Action;
        readonly on_update: Action;
      }
  );

type ForeignKey = Extract<NewConstraint, { kind: 'foreign_key' }>;

const foreignKeySql = async (client: ClientBase, wanted: ForeignKey): Promise<string> => {
  const { references, columns } = wanted;
  const other = await describe(client, references.table);
  requireColumns(other, references.columns ?? [], 'references.columns');
  const target = references.columns ?? other.primary_key;
  if (target.length !== columns.length) {
    throw invalidField('references.columns', 'must be as many as the columns; left out, they are the primary key');
  }
  return (
    `foreign key (${list(columns)}) references ${publicName(references.table)} (${list(target)})` +
    ` on delete ${wanted.on_delete} on update ${wanted.on_update}`
  );
};

const constraintSql = async (client: ClientBase, table: TableDescription, wanted: NewConstraint): Promise<string> => {
  if (wanted.kind === 'check') return `check ${expressionSql(wanted.expression, 'expression')}`;
  requireColumns(table, wanted.columns, 'columns');
  if (wanted.kind === 'foreign_key') return foreignKeySql(client, wanted);
  return `${wanted.kind === 'unique' ? 'unique' : 'primary key'} (${list(wanted.columns)})`;
};

/** Adds a primary key, a unique constraint, a check or a foreign key. */
export const addConstraint =
  (table: string, wanted: NewConstraint): SchemaChange =>
  async (client) => {
    if (wanted.name !== undefined) checkName(wanted.name, 'name');
    const definition = await constraintSql(client, await describe(client, table), wanted);
    const name = wanted.name === undefined ? '' : `constraint ${escapeIdentifier(wanted.name)} `;
    return [`alter table ${publicName(table)} add ${name}${definition}`];
  };

const constraintsSql = `
  select c.conname::text as name from pg_constraint c
  where c.conrelid = (select oid from pg_class where relname = $1 and relnamespace = 'public'::regnamespace)
    and c.contype in ('p', 'u', 'f', 'c', 'x')`;

/** A part of a table, and whether what depends on it goes, too. */
export interface PartOf {
  readonly table: string;
  readonly name: string;
  readonly cascade?: boolean;
}

const tail = ({ cascade = false }: PartOf): string => (cascade ? ' cascade' : '');

/** Drops a constraint of any kind. */
export const dropConstraint =
  (part: PartOf): SchemaChange =>
  async (client) => {
    await requireTable(client, part.table);
    const { rows } = await client.query<{ name: string }>(constraintsSql, [part.table]);
    known(
      'constraint',
      part.name,
      rows.map(({ name }) => name),
    );
    return [`alter table ${publicName(part.table)} drop constraint ${escapeIdentifier(part.name)}${tail(part)}`];
  };

export interface NewIndex {
  readonly name?: string | undefined;
  readonly method: 'btree' | 'hash' | 'gin' | 'gist' | 'spgist' | 'brin' | 'hnsw' | 'ivfflat';
  readonly unique: boolean;
  readonly columns: readonly {
    readonly column?: string | undefined;
    readonly expression?: string | undefined;
    readonly operator_class?: string | undefined;
    readonly direction?: 'asc' | 'desc' | undefined;
  }[];
  readonly include?: readonly string[] | undefined;
  /** Only these rows are indexed. */
  readonly predicate?: string | undefined;
}

const indexPart = (part: NewIndex['columns'][number], index: number): string => {
  const { column, expression, operator_class: operators, direction } = part;
  const path = `columns.${index}`;
  if ((column === undefined) === (expression === undefined)) {
    throw invalidField(path, 'must have a column or an expression, and not both');
  }
  const what = column === undefined ? expressionSql(expression ?? '', `${path}.expression`) : escapeIdentifier(column);
  return [what, operators === undefined ? '' : escapeIdentifier(operators), direction ?? '']
    .filter((text) => text !== '')
    .join(' ');
};

/** Creates an index. Writers wait until it is built. */
export const createIndex =
  (table: string, wanted: NewIndex): SchemaChange =>
  async (client) => {
    const { name, method, unique, columns, include = [], predicate } = wanted;
    const described = await describe(client, table);
    if (name !== undefined) checkName(name, 'name');
    requireColumns(
      described,
      columns.flatMap(({ column }) => column ?? []),
      'columns',
    );
    requireColumns(described, include, 'include');
    const parts = [
      `create ${unique ? 'unique ' : ''}index${name === undefined ? '' : ` ${escapeIdentifier(name)}`}`,
      `on ${publicName(table)} using ${method} (${columns.map(indexPart).join(', ')})`,
      include.length === 0 ? '' : `include (${list(include)})`,
      predicate === undefined ? '' : `where ${expressionSql(predicate, 'predicate')}`,
    ];
    return [parts.filter((part) => part !== '').join(' ')];
  };

/** Drops an index. One that belongs to a constraint goes with the constraint. */
export const dropIndex =
  (part: PartOf): SchemaChange =>
  async (client) => {
    const { indexes } = await describe(client, part.table);
    known(
      'index',
      part.name,
      indexes.map(({ name }) => name),
    );
    return [`drop index ${publicName(part.name)}${tail(part)}`];
  };
