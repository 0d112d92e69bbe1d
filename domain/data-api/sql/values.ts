import type { PathStep, Value } from '#domain/data-api/plan.ts';
import { quoteName, quoteText, typeName } from './names.ts';

const isJson = (baseType: string): boolean => baseType === 'json' || baseType === 'jsonb';

// In parentheses: `->-1` would be read as an operator of its own by some.
const keySql = (key: string | number): string => (typeof key === 'number' ? `(${key})` : quoteText(key));

const stepSql = ({ text, key }: PathStep): string => (text ? '->>' : '->') + keySql(key);

const castSql = (sql: string, cast: string | undefined): string =>
  cast === undefined ? sql : `cast(${sql} as ${typeName(cast)})`;

/** The bytes of the row before several rows are combined. */
export const rowValueSql = ({ column, path, cast }: Value, alias: string): string => {
  if (column === null) return '1';
  const base = `${alias}.${quoteName(column.name)}`;
  if (path.length === 0) return castSql(base, cast);
  // Arrays and composites are reached into as their JSON.
  const json = isJson(column.baseType) ? base : `to_jsonb(${base})`;
  return castSql(`(${json}${path.map(stepSql).join('')})`, cast);
};

/** The aggregate over a value that `rowValueSql` gave. */
export const aggregateSql = ({ column, aggregate, aggregateCast }: Value, rowValue: string): string => {
  const argument = column === null ? '*' : rowValue;
  return castSql(`${aggregate ?? 'count'}(${argument})`, aggregateCast);
};

/**
 * All rows of a source as one JSON list; `.*` and not its bare name, which could be a column's. Gathered before they are
 * written: `json_agg` takes a fifth longer.
 */
export const listSql = (row: string): string => `coalesce(array_to_json(array_agg(${row}.*)), '[]'::json)`;
