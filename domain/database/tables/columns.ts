import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { faultOfExpression } from './expressions.ts';
import { nearestHint } from './nearest-hint.ts';

/** Interface, "create table request". */
export interface NewColumn {
  readonly name: string;
  readonly type: string;
  readonly primary_key: boolean;
  readonly nullable: boolean;
  /** An SQL expression. */
  readonly default?: string | null | undefined;
}

export const invalidField = (path: string, message: string, hint?: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path, message }],
    ...(hint !== undefined && { hint }),
  });

// Not types, but what CREATE TABLE makes of an integer and a sequence.
const serials = new Set(['smallserial', 'serial2', 'serial', 'serial4', 'bigserial', 'serial8']);

const familiar =
  'smallint integer bigint serial bigserial numeric real double boolean text varchar char uuid json jsonb bytea date time timetz timestamp timestamptz interval inet cidr tsvector vector'.split(
    ' ',
  );

const refusedTypes: Readonly<Record<string, string>> = {
  '42704': 'is no type of this database',
  '42601': 'is not the name of a type',
};

/**
 * The type as it goes into SQL. The server's own parser of type names reads it first, all of it: what it takes is one type, with
 * its modifiers. It would also take a number, and comments.
 * @throws {ServiceError} `validation_failed`
 */
const typeSql = async (client: ClientBase, { type }: NewColumn, path: string): Promise<string> => {
  const name = type.trim();
  if (serials.has(name.toLowerCase())) return name;
  if (/^[\d-]|--|\/\*/.test(name)) throw invalidField(path, 'is not the name of a type');
  await client.query('savepoint type');
  try {
    await client.query('select $1::pg_catalog.regtype', [name]);
    return name;
  } catch (error) {
    if (!(error instanceof DatabaseError) || !/^(42|22|0A|3F)/.test(error.code ?? '')) throw error;
    const message = refusedTypes[error.code ?? ''] ?? `is not possible as a type: ${error.message}`;
    throw invalidField(path, message, nearestHint(name, familiar).hint);
  } finally {
    await client.query('rollback to type; release type');
  }
};

const nameBytes = 63;

/** @throws {ServiceError} `validation_failed`: PostgreSQL would cut it */
export const checkName = (name: string, path: string): void => {
  const bytes = Buffer.byteLength(name);
  if (bytes > nameBytes) throw invalidField(path, `has ${bytes} bytes; a name has at most ${nameBytes}`);
};

const defaultSql = ({ default: expression }: NewColumn, path: string): string => {
  if (expression === undefined || expression === null) return '';
  const fault = faultOfExpression(expression);
  if (fault !== null) throw invalidField(path, fault);
  return ` default (${expression})`;
};

/**
 * A column's definition; what is in it are a quoted name, one type and one expression.
 * @param path where the column stands in the body, e.g. `columns.0.`; empty when it is the body
 * @throws {ServiceError} `validation_failed`
 */
export const columnSql = async (client: ClientBase, column: NewColumn, path: string): Promise<string> => {
  checkName(column.name, `${path}name`);
  const type = await typeSql(client, column, `${path}type`);
  const byDefault = defaultSql(column, `${path}default`);
  const required = column.nullable && !column.primary_key ? '' : ' not null';
  return `${escapeIdentifier(column.name)} ${type}${byDefault}${required}`;
};
