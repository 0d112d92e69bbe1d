import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { Refusal, ServiceError, notFound } from '#lib/errors.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { type ChangeListeners, noteChange } from '../database.ts';
import { type NewColumn, checkName, columnSql, invalidField } from './columns.ts';
import { type ColumnDescription, describeTable, nearestHint, requireTable } from './describe.ts';
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

/** Changes tables as their owner, in one transaction: what a default calls is code of the project. */
export const changing = async <T>(
  deps: TableChangeDeps,
  { projectId, signal, once }: ChangeOf,
  work: (client: ClientBase) => Promise<T>,
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
  noteChange(deps, projectId, { schema: true, rows: false });
  return result;
};

/** By the extended protocol, which takes one statement. */
const runOne = (client: ClientBase, sql: string) => runBound(client, { sql, params: [] });

const publicName = (table: string): string => `public.${escapeIdentifier(table)}`;

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

/**
 * @throws {ServiceError} `validation_failed`, `conflict`
 * @throws {DataError} with the SQLSTATE as code
 */
export const createTable = async (
  deps: TableChangeDeps,
  of: ChangeOf,
  { name, columns }: NewTable,
): Promise<{ name: string; columns: readonly ColumnDescription[] }> => {
  checkName(name, 'name');
  checkColumns(columns);
  return changing(deps, of, async (client) => {
    const parts: string[] = [];
    for (const [index, column] of columns.entries()) parts.push(await columnSql(client, column, `columns.${index}.`));
    const keys = columns.filter((column) => column.primary_key).map((column) => escapeIdentifier(column.name));
    if (keys.length > 0) parts.push(`primary key (${keys.join(', ')})`);
    await runOne(client, `create table ${publicName(name)} (${parts.join(', ')})`);
    return { name, columns: (await describeTable(client, name)).columns };
  });
};

const tail = (cascade: boolean): string => (cascade ? ' cascade' : '');

/** @throws {ServiceError} `not_found`, `conflict` when others depend on it */
export const dropTable = (deps: TableChangeDeps, of: ChangeOf, name: string, cascade: boolean): Promise<void> =>
  changing(deps, of, async (client) => {
    const { kind } = await requireTable(client, name);
    await runOne(client, `drop ${kind === 'foreign' ? 'foreign ' : ''}table ${publicName(name)}${tail(cascade)}`);
  });

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
    await requireTable(client, table);
    const definition = await columnSql(client, column, '');
    const key = column.primary_key ? ' primary key' : '';
    await runOne(client, `alter table ${publicName(table)} add column ${definition}${key}`);
    const { columns } = await describeTable(client, table);
    const added = columns.find(({ name }) => name === column.name);
    if (added === undefined) throw notFound('column');
    return added;
  });

export interface ColumnName {
  readonly table: string;
  readonly column: string;
}

/** @throws {ServiceError} `not_found`, `conflict` when others depend on it */
export const dropColumn = (
  deps: TableChangeDeps,
  of: ChangeOf,
  { table, column }: ColumnName,
  cascade: boolean,
): Promise<void> =>
  changing(deps, of, async (client) => {
    await requireTable(client, table);
    const names = (await describeTable(client, table)).columns.map(({ name }) => name);
    if (!names.includes(column)) {
      throw new ServiceError('not_found', `There is no column ${JSON.stringify(column)}.`, nearestHint(column, names));
    }
    await runOne(client, `alter table ${publicName(table)} drop column ${escapeIdentifier(column)}${tail(cascade)}`);
  });
