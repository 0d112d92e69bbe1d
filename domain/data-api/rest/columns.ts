import { DataError } from '#domain/data-api/errors.ts';
import type { Value } from '#domain/data-api/plan.ts';
import type { Column, Table } from '#domain/data-api/schema/types.ts';
import type { FieldAst } from './grammar/ast.ts';
import { nearest } from '#lib/nearest.ts';

/**
 * A column by its name.
 * @throws {DataError} 42703 (400), in the server's own words, with the nearest name for a hint
 */
const findColumn = (table: Table, name: string): Column => {
  const column = table.columns.get(name);
  if (column !== undefined) return column;
  const near = nearest(name, table.columns.keys());
  throw new DataError(400, '42703', `column ${table.name}.${name} does not exist`, {
    hint: near === null ? null : `Perhaps you meant to reference the column "${table.name}.${near}".`,
  });
};

/** @throws {DataError} 42703 (400) */
export const valueOf = (table: Table, { name, path }: FieldAst): Value => ({ column: findColumn(table, name), path });
