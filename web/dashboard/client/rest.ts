import { textOf } from './exact-json.ts';

/** The address of a table in the data API, for members of the project. */
export const restPath = (projectId: string, table: string): string =>
  `/projects/${projectId}/rest/v1/${encodeURIComponent(table)}`;

/** A column's name in the grammar of filters and orders, whatever characters it has. */
export const quotedName = (name: string): string => `"${name.replaceAll(/[\\"]/g, String.raw`\$&`)}"`;

/** A filter that finds rows with this value only, as a parameter of the address. */
export const isValue = (column: string, value: unknown): [string, string] => [
  quotedName(column),
  value === null ? 'is.null' : `eq.${textOf(value)}`,
];
