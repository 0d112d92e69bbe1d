import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import type { FenceDb } from '../console/fence.ts';
import { readingTables } from './reading.ts';
import { type Relation, listRelations } from './relations.ts';

/** Interface, "table list entry". */
export interface TableEntry {
  readonly name: string;
  /** How many. */
  readonly columns: number;
  /** Counted where that is cheap, else the server's estimate. */
  readonly rows: number;
}

// The size up to which rows are counted exactly in one request: 256 MB of tables, the small ones first, some 100 ms.
const countedPages = 32_768;
const countTimeoutMs = 1000;
const countLockMs = 300;
const tablesAtATime = 20;

const cheapOnes = (tables: readonly Relation[]): Relation[] => {
  let left = countedPages;
  return tables
    .filter(({ kind }) => kind !== 'foreign')
    .toSorted((a, b) => a.pages - b.pages)
    .filter(({ pages }) => {
      left -= pages;
      return left >= 0;
    });
};

const uncountable = new Set(['57014', '55P03', '42P01', '42501']);

/** The exact counts; null when one of the tables is locked, gone or slow. */
const countRows = async (
  client: ClientBase,
  tables: readonly Relation[],
  withinMs: number,
): Promise<number[] | null> => {
  const counts = tables.map(({ name }) => `(select count(*) from public.${escapeIdentifier(name)})`);
  const lockMs = Math.min(countLockMs, withinMs);
  await client.query(
    `savepoint counting; set local statement_timeout = ${withinMs}; set local lock_timeout = ${lockMs}`,
  );
  try {
    const { rows } = await client.query<{ counts: string[] }>(`select array[${counts.join(', ')}]::text[] as counts`);
    return (rows[0]?.counts ?? []).map(Number);
  } catch (error) {
    if (!(error instanceof DatabaseError) || !uncountable.has(error.code ?? '')) throw error;
    return null;
  } finally {
    await client.query('rollback to counting; release counting');
  }
};

/** Many at once, and one by one those of a lot that had a bad one in it. */
const exactCounts = async (client: ClientBase, tables: readonly Relation[]): Promise<ReadonlyMap<string, number>> => {
  const known = new Map<string, number>();
  const until = performance.now() + countTimeoutMs;
  const lots = Array.from({ length: Math.ceil(tables.length / tablesAtATime) }, (_, index) =>
    tables.slice(index * tablesAtATime, (index + 1) * tablesAtATime),
  );
  for (let lot = lots.shift(); lot !== undefined; lot = lots.shift()) {
    const withinMs = Math.floor(until - performance.now());
    if (withinMs <= 0) break;
    const counts = await countRows(client, lot, withinMs);
    for (const [index, { name }] of lot.entries()) {
      if (counts === null && lot.length > 1) lots.push(lot.slice(index, index + 1));
      else if (counts !== null) known.set(name, counts[index] ?? 0);
    }
  }
  return known;
};

/** A list is fast: it does not stop when its caller leaves. */
const never = new AbortController().signal;

/** The tables of schema `public`, by name; partitions count with theirs. */
export const listTables = (db: FenceDb, projectId: string): Promise<TableEntry[]> =>
  readingTables(db, { projectId, signal: never }, async (client) => {
    const relations = await listRelations(client);
    const tables = relations.filter(({ kind }) => kind !== 'view' && kind !== 'materialized');
    const exact = await exactCounts(client, cheapOnes(tables));
    return tables.map(({ name, columns, estimate }) => ({
      name,
      columns,
      rows: exact.get(name) ?? Math.max(0, Math.round(estimate)),
    }));
  });
