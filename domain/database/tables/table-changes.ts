import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { Refusal, ServiceError, notFound } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { type Change, type ChangeListeners, noteChange } from '../database.ts';
import { type NewColumn, checkName, columnSql, invalidField } from './columns.ts';
import {
  type ColumnDescription,
  describeTable,
  describing,
  nearestHint,
  requireTable,
  tooLargeToDescribe,
} from './describe.ts';
import { type FenceDb, type StoppedBy, inCallersFence } from '../console/fence.ts';
import { type Once, onceAsOwner } from '../console/owner-key.ts';
import { connectionLost, sqlError } from '../console/sql-error.ts';

export interface TableChangeDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

/** The project whose tables change, and the caller that waits for the change. */
export interface ChangeOf {
  readonly projectId: string;
  readonly signal: AbortSignal;
  readonly once?: Once | undefined;
}

const timeoutMs = 30_000;
const lockTimeoutMs = 5000;

const conflicts: Readonly<Record<string, string>> = {
  '42P07': 'There is a table, view, index or sequence of this name already.',
  '42701': 'There is a column of this name already.',
  '2BP01': 'Other objects depend on it.',
  '55P03': 'The table is in use.',
  '55006': 'The table is in use.',
};

/** When two callers create the same object at once, the later one runs into the catalog's own index. */
const codeOf = ({ code, schema }: DatabaseError): string =>
  code === '23505' && schema === 'pg_catalog' ? '42P07' : (code ?? '');

const failureOf = (error: unknown, stoppedBy: StoppedBy): unknown => {
  if (stoppedBy === 'caller') return new CallerGone('the caller has gone');
  if (stoppedBy === 'watchdog') return new DataError(504, '57014', 'The change took too long and was undone.');
  if (error instanceof Refusal) return error;
  if (error instanceof AnswerTooLarge) return tooLargeToDescribe(error);
  if (!(error instanceof DatabaseError)) return connectionLost(error);
  const conflict = conflicts[codeOf(error)];
  if (conflict === undefined) return sqlError(error);
  const { details } = sqlError(error);
  const hint = error.code === '2BP01' ? { hint: 'With ?cascade=true they are dropped, too.' } : {};
  return new ServiceError('conflict', conflict, { details, ...hint });
};

/** In the open transaction, once for its key; what is kept is JSON. */
const onceFor = async <T>(client: ClientBase, once: Once | undefined, work: () => Promise<T>): Promise<T> =>
  once === undefined
    ? work()
    : (JSON.parse(await onceAsOwner(client, once, async () => JSON.stringify(await work()))) as T);

/**
 * Changes tables as their owner, in one transaction: what a default calls is code of the project.
 * @param change what it may change, for those that must learn of it; left out: the schema
 */
export const changing = async <T>(
  deps: TableChangeDeps,
  { projectId, signal, once }: ChangeOf,
  work: (client: ClientBase) => Promise<T>,
  change: Change = { schema: true, rows: false },
): Promise<T> => {
  const fence = { projectId, role: 'owner', timeoutMs, signal } as const;
  const result = await inCallersFence(deps.tenantDb, fence, async (client, stoppedBy) => {
    try {
      await client.query('set search_path = pg_catalog, public; begin');
      const done = await onceFor(client, once, async () => {
        // Not for the key: who has it may take longer.
        await client.query(`set lock_timeout = ${lockTimeoutMs}`);
        return work(client);
      });
      await client.query('commit');
      return done;
    } catch (error) {
      throw failureOf(error, stoppedBy());
    }
  });
  noteChange(deps, projectId, change);
  return result;
};

/** By the extended protocol, which takes one statement. */
const runOne = (client: ClientBase, sql: string) => runBound(client, { sql, params: [] });

export const publicName = (table: string): string => `public.${escapeIdentifier(table)}`;

const checkColumns = (columns: readonly NewColumn[]): void => {
  const seen = new Set<string>();
  columns.forEach(({ name }, index) => {
    if (seen.has(name)) throw invalidField(`columns.${index}.name`, 'is the name of an earlier column, too');
    seen.add(name);
  });
};

export interface NewTable {
  readonly name: string;
  readonly columns: readonly NewColumn[];
}

/** The statement that `createTable` runs. @throws {ServiceError} `validation_failed` */
export const createTableSql = async (client: ClientBase, { name, columns }: NewTable): Promise<string> => {
  checkName(name, 'name');
  checkColumns(columns);
  const parts: string[] = [];
  for (const [index, column] of columns.entries()) parts.push(await columnSql(client, column, `columns.${index}.`));
  const keys = columns.filter((column) => column.primary_key).map((column) => escapeIdentifier(column.name));
  if (keys.length > 0) parts.push(`primary key (${keys.join(', ')})`);
  const lines = parts.map((part) => `\n  ${part}`).join(',');
  return `create table ${publicName(name)} (${lines}${parts.length > 0 ? '\n' : ''})`;
};

/**
 * @throws {ServiceError} `validation_failed`, `conflict`
 * @throws {DataError} with the SQLSTATE as code
 */
export const createTable = async (
  deps: TableChangeDeps,
  of: ChangeOf,
  table: NewTable,
): Promise<{ name: string; columns: readonly ColumnDescription[] }> =>
  changing(deps, of, async (client) => {
    await runOne(client, await createTableSql(client, table));
    return { name: table.name, columns: (await describeTable(client, table.name)).columns };
  });

const tail = (cascade: boolean): string => (cascade ? ' cascade' : '');

/** The statement that `dropTable` runs. @throws {ServiceError} `not_found` */
export const dropTableSql = async (client: ClientBase, name: string, cascade: boolean): Promise<string> => {
  const { kind } = await requireTable(client, name);
  return `drop ${kind === 'foreign' ? 'foreign ' : ''}table ${publicName(name)}${tail(cascade)}`;
};

/** @throws {ServiceError} `not_found`, `conflict` when others depend on it */
export const dropTable = (deps: TableChangeDeps, of: ChangeOf, name: string, cascade: boolean): Promise<void> =>
  changing(deps, of, async (client) => {
    await runOne(client, await dropTableSql(client, name, cascade));
  });

/** The statement that `addColumn` runs. @throws {ServiceError} `not_found`, `validation_failed` */
export const addColumnSql = async (client: ClientBase, table: string, column: NewColumn): Promise<string> => {
  await requireTable(client, table);
  const definition = await columnSql(client, column, '');
  return `alter table ${publicName(table)} add column ${definition}${column.primary_key ? ' primary key' : ''}`;
};

/**
 * @throws {ServiceError} `not_found`, `validation_failed`, `conflict`
 * @throws {DataError} with the SQLSTATE as code, e.g. 23502 when there are rows and neither default nor null is
 * possible
 */
export const addColumn = (
  deps: TableChangeDeps,
  of: ChangeOf,
  table: string,
  column: NewColumn,
): Promise<ColumnDescription> =>
  changing(deps, of, async (client) => {
    await runOne(client, await addColumnSql(client, table, column));
    const { columns } = await describeTable(client, table);
    const added = columns.find(({ name }) => name === column.name);
    if (added === undefined) throw notFound('column');
    return added;
  });

export interface ColumnName {
  readonly table: string;
  readonly column: string;
}

/** @throws {ServiceError} `not_found`, with the nearest name as hint */
export const requireColumn = async (client: ClientBase, { table, column }: ColumnName): Promise<void> => {
  await requireTable(client, table);
  const names = (await describeTable(client, table)).columns.map(({ name }) => name);
  if (names.includes(column)) return;
  throw new ServiceError('not_found', `There is no column ${JSON.stringify(column)}.`, nearestHint(column, names));
};

/** The statement that `dropColumn` runs. @throws {ServiceError} `not_found` */
export const dropColumnSql = async (client: ClientBase, name: ColumnName, cascade: boolean): Promise<string> => {
  await requireColumn(client, name);
  return `alter table ${publicName(name.table)} drop column ${escapeIdentifier(name.column)}${tail(cascade)}`;
};

/** @throws {ServiceError} `not_found`, `conflict` when others depend on it */
export const dropColumn = (deps: TableChangeDeps, of: ChangeOf, name: ColumnName, cascade: boolean): Promise<void> =>
  changing(deps, of, async (client) => {
    await runOne(client, await dropColumnSql(client, name, cascade));
  });

/** Works out the statements of a change, in the session that runs them. */
export type SchemaChange = (client: ClientBase) => Promise<readonly string[]>;

const asText = (statements: readonly string[]): string => statements.map((sql) => `${sql};`).join('\n');

/**
 * Changes the schema in one transaction.
 * @returns the SQL that ran
 * @throws {ServiceError} `not_found`, `validation_failed`, `conflict`
 * @throws {DataError} with the SQLSTATE as code
 */
export const changeSchema = (deps: TableChangeDeps, of: ChangeOf, change: SchemaChange): Promise<string> =>
  changing(deps, of, async (client) => {
    const statements = await change(client);
    for (const sql of statements) await runOne(client, sql);
    return asText(statements);
  });

/** The SQL that a change would run; nothing runs. @throws {ServiceError} `not_found`, `validation_failed` */
export const previewChange = (deps: TableChangeDeps, projectId: string, change: SchemaChange): Promise<string> =>
  describing(deps.tenantDb, projectId, async (client) => asText(await change(client)));
