import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { nearestHint } from './describe.ts';

/**
 * Whether a text can stand in parentheses as one SQL expression and cannot end them: the server parses what is inside.
 * Read as PostgreSQL reads it with standard_conforming_strings on: '…', E'…', "…", $tag$…$tag$, comments.
 */
const tokens = new RegExp(
  [
    String.raw`(?<![\w$\u0080-\uffff])[eE]'(?:[^'\\]|\\[^]|'')*'`,
    // Not one with escapes that is never closed.
    String.raw`(?<!(?<![\w$\u0080-\uffff])[eE])'(?:[^']|'')*'`,
    `"(?:[^"]|"")*"`,
    String.raw`(?<![\w$\u0080-\uffff])\$([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$[^]*?\$\1\$`,
  ].join('|'),
  'g',
);

const closing: Readonly<Record<string, string>> = { ')': '(', ']': '[' };

const isBalanced = (bare: string): boolean => {
  const open: string[] = [];
  for (const char of bare) {
    if (char === '(' || char === '[') open.push(char);
    else if (char in closing && open.pop() !== closing[char]) return false;
  }
  return open.length === 0;
};

/** Returns the problem of a name, in words that follow it; null when there is none. */
export const faultOfExpression = (text: string): string | null => {
  // A literal becomes one that is empty: two that stood apart do not meet.
  const bare = text.replaceAll(tokens, ' 0 ');
  if (/['"]/.test(bare)) return 'has a quote that is not closed';
  if (/(?<![\w$\u0080-\uffff])\$[A-Za-z_\u0080-\uffff]*\$/.test(bare)) return 'has a dollar quote that is not closed';
  if (/--|\/\*/.test(bare)) return 'must not hold comments';
  if (bare.includes(';')) return 'must be one expression';
  if (!isBalanced(bare)) return 'has parentheses that do not match';
  return bare.trim() === '' ? 'must not be blank' : null;
};

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
 * The type as it goes into SQL. The server's own parser of type names reads it first, all of it: what it takes is one
 * type, with its modifiers. It would also take a number, and comments.
 * @throws {ServiceError} `validation_failed`
 */
export const typeSql = async (client: ClientBase, type: string, path: string): Promise<string> => {
  const name = type.trim();
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

/** The expression in parentheses, which it cannot end. @throws {ServiceError} `validation_failed` */
export const expressionSql = (expression: string, path: string): string => {
  const fault = faultOfExpression(expression);
  if (fault !== null) throw invalidField(path, fault);
  return `(${expression})`;
};

const defaultSql = ({ default: expression }: NewColumn, path: string): string =>
  expression === undefined || expression === null ? '' : ` default ${expressionSql(expression, path)}`;

/**
 * A column's definition; what is in it are a quoted name, one type and one expression.
 * @param path where the column stands in the body, e.g. `columns.0.`; empty when it is the body
 * @throws {ServiceError} `validation_failed`
 */
export const columnSql = async (client: ClientBase, column: NewColumn, path: string): Promise<string> => {
  checkName(column.name, `${path}name`);
  const given = column.type.trim();
  const type = serials.has(given.toLowerCase()) ? given : await typeSql(client, given, `${path}type`);
  const byDefault = defaultSql(column, `${path}default`);
  const required = column.nullable && !column.primary_key ? '' : ' not null';
  return `${escapeIdentifier(column.name)} ${type}${byDefault}${required}`;
};
