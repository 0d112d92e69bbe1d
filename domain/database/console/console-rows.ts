import { setImmediate as breathe } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { type ToJson, toExactJsonOf } from '#lib/postgres/values.ts';
import type { CappedColumn, CappedRows } from './capped-query.ts';

export interface ConsoleColumn {
  /** The key in the rows: of several columns with one name the later ones get a number. */
  readonly name: string;
  /** As `format_type` writes it, e.g. `character varying(40)`. */
  readonly type: string;
}

export interface ReadColumn extends ConsoleColumn {
  readonly toJson: ToJson;
}

const typesSql = `
  select pg_catalog.format_type(t.oid, c.modifier) as type, t.typcategory operator(pg_catalog.=) 'A' as is_array
  from rows from (pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::pg_catalog.int4[]))
    with ordinality as c (oid, modifier, position)
  left join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) c.oid
  order by c.position`;

/** `a`, `a_2`, `a_3`: an object cannot hold a key twice. */
const distinct = (names: readonly string[]): string[] => {
  const taken = new Set(names);
  const seen = new Set<string>();
  return names.map((name) => {
    if (!seen.has(name)) {
      seen.add(name);
      return name;
    }
    let number = 2;
    while (taken.has(`${name}_${number}`)) number += 1;
    const other = `${name}_${number}`;
    taken.add(other);
    return other;
  });
};

/** The names of the columns, and how their values become JSON. */
export const readColumns = async (client: ClientBase, columns: readonly CappedColumn[]): Promise<ReadColumn[]> => {
  if (columns.length === 0) return [];
  const types = columns.map(({ type }) => type);
  const modifiers = columns.map(({ modifier }) => modifier);
  const { rows } = await client.query<{ type: string | null; is_array: boolean | null }>(typesSql, [types, modifiers]);
  return distinct(columns.map(({ name }) => name)).map((name, index) => ({
    name,
    type: rows[index]?.type ?? 'unknown',
    toJson: toExactJsonOf(types[index] ?? 0, rows[index]?.is_array ?? false),
  }));
};

// Escapes and the names of columns, which each row repeats, come on top of the values.
const maxTextLength = 32 * 1024 * 1024;
const breathAfter = 1024 * 1024;

const writerOf = (columns: readonly ReadColumn[]): ((row: readonly (string | null)[]) => string) => {
  const writers = columns.map(({ name, toJson }) => ({ key: `${JSON.stringify(name)}:`, toJson }));
  return (row) => {
    const parts = writers.map(({ key, toJson }, index) => {
      const value = row[index] ?? null;
      return key + (value === null ? 'null' : toJson(value));
    });
    return `{${parts.join(',')}}`;
  };
};

/** Rows as the text of a JSON array, as far as 32 MB reach; other requests are served in between. */
export const consoleRowsText = async (
  columns: readonly ReadColumn[],
  { rows }: Pick<CappedRows, 'rows'>,
): Promise<{ text: string; count: number }> => {
  const write = writerOf(columns);
  const texts: string[] = [];
  let length = 0;
  let rested = 0;
  for (const row of rows) {
    const text = write(row);
    length += text.length;
    if (length > maxTextLength) break;
    texts.push(text);
    if (length - rested > breathAfter) {
      rested = length;
      await breathe();
    }
  }
  return { text: `[${texts.join(',')}]`, count: texts.length };
};
