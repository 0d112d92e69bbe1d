import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { DataError } from '#domain/data-api/errors.ts';
import { ServiceError } from '#lib/errors.ts';
import { mapInTurns } from '#lib/in-turns.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { quote } from '#lib/postgres/quote.ts';
import { invalidField } from './columns.ts';
import { type TableDescription, describeTable, describing, nearestHint, requireTable } from './describe.ts';
import { sqlError } from '../console/sql-error.ts';
import { type ChangeOf, type TableChangeDeps, changing } from './table-changes.ts';

/** Values by column; numbers that JavaScript cannot hold as `JSON.rawJSON`. */
type Values = Readonly<Record<string, unknown>>;

/** A change of one row, as somebody who looks at it asks for it. */
export type RowChange =
  | { readonly kind: 'insert'; readonly values: Values }
  | {
      readonly kind: 'update';
      readonly key: Values;
      /** The values that were seen: where the row has others by now, it is in conflict. */
      readonly old: Values;
      readonly values: Values;
    }
  | { readonly kind: 'delete'; readonly key: Values; readonly old: Values };

interface Target {
  readonly table: TableDescription;
  /** By name. */
  readonly types: ReadonlyMap<string, string>;
  readonly name: string;
}

const typeOf = ({ table, types }: Target, column: string, path: string): string => {
  const type = types.get(column);
  if (type !== undefined) return type;
  const names = table.columns.map(({ name }) => name);
  throw invalidField(path, `names no column of the table: ${JSON.stringify(column)}`, nearestHint(column, names).hint);
};

const isJson = (type: string): boolean => type === 'json' || type === 'jsonb';

/** `JSON.rawJSON` makes objects that stand for a number. */
const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || (JSON as unknown as { isRawJSON: (value: unknown) => boolean }).isRawJSON(value);

const isNested = (value: unknown): boolean => typeof value === 'object' && value !== null && !isNumber(value);

/** Literals have no type of their own, so that the server reads each as what its column holds. */
const literal = (value: unknown, type: string): string => {
  if (value === null) return 'null';
  if (isJson(type)) return quote(JSON.stringify(value));
  return quote(typeof value === 'string' ? value : JSON.stringify(value));
};

/** The new value of a column. Arrays and rows come as JSON, and only the server knows how they are written. */
const newValue = (target: Target, column: string, value: unknown, path: string): string => {
  const type = typeOf(target, column, path);
  if (!isNested(value) || isJson(type)) return literal(value, type);
  const record = quote(JSON.stringify({ [column]: value }));
  return `(json_populate_record(null::${target.name}, ${record})).${escapeIdentifier(column)}`;
};

/** These have no operator of equality. */
const incomparable = /^(?:xml|point|line|lseg|box|path|polygon|circle)$/;

const sameAs = (target: Target, column: string, value: unknown, path: string): string => {
  const type = typeOf(target, column, path);
  const name = escapeIdentifier(column);
  if (value === null) return `${name} is null`;
  if (isJson(type)) return `${name}::jsonb = ${literal(value, type)}::jsonb`;
  if (isNested(value)) return `to_jsonb(${name}) = ${quote(JSON.stringify(value))}::jsonb`;
  return incomparable.test(type) ? `${name}::text = ${literal(value, type)}` : `${name} = ${literal(value, type)}`;
};

const conditions = (target: Target, { key, old }: { readonly key: Values; readonly old: Values }, path: string) => {
  const { primary_key: columns } = target.table;
  const missing = columns.find((column) => key[column] === undefined || key[column] === null);
  if (missing !== undefined) throw invalidField(`${path}.key`, `lacks the value of ${JSON.stringify(missing)}`);
  const parts = columns.map((column) => sameAs(target, column, key[column], `${path}.key`));
  const seen = Object.entries(old).filter(([column]) => !columns.includes(column));
  return [...parts, ...seen.map(([column, value]) => sameAs(target, column, value, `${path}.old`))].join(' and ');
};

const insertSql = (target: Target, values: Values, path: string): string => {
  const entries = Object.entries(values);
  if (entries.length === 0) return `insert into ${target.name} default values`;
  const columns = entries.map(([column]) => escapeIdentifier(column)).join(', ');
  const texts = entries.map(([column, value]) => newValue(target, column, value, `${path}.values`)).join(', ');
  return `insert into ${target.name} (${columns}) values (${texts})`;
};

const updateSql = (target: Target, change: Extract<RowChange, { kind: 'update' }>, path: string): string => {
  const sets = Object.entries(change.values).map(
    ([column, value]) => `${escapeIdentifier(column)} = ${newValue(target, column, value, `${path}.values`)}`,
  );
  if (sets.length === 0) throw invalidField(`${path}.values`, 'must not be empty');
  return `update ${target.name} set ${sets.join(', ')} where ${conditions(target, change, path)}`;
};

const statementOf = (target: Target, change: RowChange, index: number): string => {
  const path = `changes.${index}`;
  if (change.kind === 'insert') return insertSql(target, change.values, path);
  if (target.table.primary_key.length === 0) {
    throw invalidField(`${path}.kind`, 'is possible only in a table with a primary key');
  }
  if (change.kind === 'update') return updateSql(target, change, path);
  return `delete from ${target.name} where ${conditions(target, change, path)}`;
};

const statementsOf = async (
  client: ClientBase,
  table: string,
  changes: readonly RowChange[],
): Promise<readonly string[]> => {
  await requireTable(client, table);
  const described = await describeTable(client, table);
  const types = new Map(described.columns.map(({ name, type }) => [name, type]));
  const target = { table: described, types, name: `public.${escapeIdentifier(table)}` };
  const statements = await mapInTurns(changes.entries(), ([index, change]) => statementOf(target, change, index));
  const nul = statements.findIndex((sql) => sql.includes('\0') || !sql.isWellFormed());
  if (nul !== -1) throw invalidField(`changes.${nul}`, 'must be well-formed Unicode without NUL');
  return statements;
};

const conflict = (indexes: readonly number[]): ServiceError =>
  new ServiceError('conflict', 'Somebody else has changed these rows. Nothing was written.', {
    details: indexes.map((index) => ({ path: `changes.${index}`, message: 'the row is not as it was seen any more' })),
    hint: 'Read the rows again, and decide.',
  });

/** A failure of the server names the change that it came from. Locks that others hold are no fault of a change. */
const named = (error: unknown, index: number): unknown => {
  if (!(error instanceof DatabaseError) || error.code === '55P03') return error;
  const { status, code, message, details, hint } = sqlError(error);
  return new DataError(status, code, message, { hint, details: { ...(details as object | null), change: index } });
};

export interface RowChanges {
  readonly table: string;
  readonly changes: readonly RowChange[];
}

const asText = (statements: readonly string[]): string => statements.map((sql) => `${sql};`).join('\n');

/** The SQL that `changeRows` would run. @throws as it does */
export const previewRows = (deps: TableChangeDeps, projectId: string, { table, changes }: RowChanges) =>
  describing(deps.tenantDb, projectId, async (client) => asText(await statementsOf(client, table, changes)));

/**
 * Changes rows in one transaction: all of them, or none. A row that is not as it was seen is a conflict, and all of
 * those are named at once.
 * @returns the SQL that ran
 * @throws {ServiceError} `not_found`, `validation_failed`, `conflict` with the changes in `details`
 * @throws {DataError} with the SQLSTATE as code
 */
export const changeRows = (deps: TableChangeDeps, of: ChangeOf, { table, changes }: RowChanges): Promise<string> =>
  changing(
    deps,
    of,
    async (client) => {
      const statements = await statementsOf(client, table, changes);
      const inConflict: number[] = [];
      for (const [index, sql] of statements.entries()) {
        const { rowCount } = await runBound(client, { sql, params: [] }).catch((error: unknown) => {
          throw named(error, index);
        });
        if (rowCount !== 1 && changes[index]?.kind !== 'insert') inConflict.push(index);
      }
      if (inConflict.length > 0) throw conflict(inConflict);
      return asText(statements);
    },
    { schema: false, rows: true },
  );
