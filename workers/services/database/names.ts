import { CallFault } from '../../runtimes/runtime.ts';

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
export const quotedColumn = (name: string): string => quotedName(name, 'column');

/**
 * `name` or `schema.name`, exactly as the table is called, capitals and all.
 * @throws {CallFault}
 */
export const quotedTable = (name: string): string => {
  const parts = name.split('.');
  if (parts.length > 2) throw new CallFault('TypeError', 'A table is called "name" or "schema.name".');
  return parts.map((part) => quotedName(part, 'table')).join('.');
};
