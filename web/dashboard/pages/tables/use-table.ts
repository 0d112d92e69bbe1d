import { useCallback, useMemo } from 'react';
import type { RowPages } from '../../client/row-pages.ts';
import type { SchemaTable } from '../../client/schema.ts';
import {
  type Staged,
  keyOf,
  stageDelete,
  stageInsert,
  stageInserted,
  stageUpdate,
  unstage,
  unstageInsert,
} from '../../client/staged.ts';
import { type Row, hasDefault } from '../../client/values.ts';
import { byDefault } from '../../components/grid.tsx';

/** A table as it will be: new rows on top, then those of the database with what is not saved yet. */
export interface TableModel {
  readonly rowCount: number;
  readonly rowAt: (row: number) => Row | undefined;
  readonly rowClass: (row: number) => string;
  readonly cellClass: (row: number, column: string) => string;
  readonly isRemoved: (row: number) => boolean;
  readonly isNew: (row: number) => boolean;
  /** Resolves when these rows are there. */
  readonly load: (from: number, to: number) => Promise<void>;
  /** The staged values of a row; undefined stands for the default of a column. */
  readonly assign: (staged: Staged, row: number, values: Row) => Staged;
  /** Deletes these rows; those that are deleted already come back. */
  readonly remove: (staged: Staged, rows: readonly number[]) => Staged;
  /** The row as it is in the database, for what it leads to. */
  readonly storedAt: (row: number) => Row | undefined;
}

/** New rows get what the database would give them. */
const shownInsert = (table: SchemaTable, values: Row): Row => ({
  ...Object.fromEntries(table.columns.map((column) => [column.name, hasDefault(column) ? byDefault : null])),
  ...values,
});

/** Changes of rows by their numbers. */
const changersOf = (table: SchemaTable, staged: Staged, storedAt: TableModel['storedAt']) => {
  const { inserts } = staged;
  const { primary_key: primaryKey } = table;
  const assign = (known: Staged, row: number, values: Row): Staged => {
    const insert = inserts[row];
    if (insert !== undefined) return stageInserted(known, insert.id, values);
    const stored = storedAt(row);
    return stored === undefined || primaryKey.length === 0
      ? known
      : stageUpdate(known, { row: stored, primaryKey }, values);
  };
  const remove = (known: Staged, rows: readonly number[]): Staged => {
    const gone = rows.flatMap((row) => inserts[row]?.id ?? []);
    const stored = rows
      .filter((row) => row >= inserts.length)
      .map((row) => storedAt(row))
      .filter((row) => row !== undefined);
    const isAgain = stored.length > 0 && stored.every((row) => Object.hasOwn(known.deletes, keyOf(row, primaryKey)));
    const rest = unstageInsert(known, gone);
    if (isAgain) return stored.reduce((all, row) => unstage(all, keyOf(row, primaryKey)), rest);
    return stageDelete(
      rest,
      stored.map((row) => ({ row, primaryKey })),
    );
  };
  return { assign, remove };
};

export const useTable = (table: SchemaTable, pages: RowPages, staged: Staged): TableModel => {
  const { inserts, updates, deletes } = staged;
  const primaryKey = table.primary_key;
  const added = useMemo(() => inserts.map(({ values }) => shownInsert(table, values)), [table, inserts]);
  const count = added.length;
  // A row that is drawn again is the same object, so that it is not drawn in vain.
  const merged = useMemo(() => ({ of: updates, rows: new WeakMap<Row, Row>() }), [updates]);
  const storedAt = useCallback((row: number) => pages.rowAt(row - count), [pages, count]);
  const keyAt = useCallback(
    (row: number): string | null => {
      const stored = row < count || primaryKey.length === 0 ? undefined : storedAt(row);
      return stored === undefined ? null : keyOf(stored, primaryKey);
    },
    [storedAt, count, primaryKey],
  );
  const rowAt = (row: number): Row | undefined => {
    if (row < count) return added[row];
    const stored = storedAt(row);
    const values = stored === undefined ? undefined : merged.of[keyAt(row) ?? '']?.values;
    if (stored === undefined || values === undefined) return stored;
    const known = merged.rows.get(stored) ?? { ...stored, ...values };
    merged.rows.set(stored, known);
    return known;
  };
  const isRemoved = (row: number): boolean => Object.hasOwn(deletes, keyAt(row) ?? '');
  const cellClass = useCallback(
    (row: number, column: string): string =>
      Object.hasOwn(updates[keyAt(row) ?? '']?.values ?? {}, column) ? 'changed' : '',
    [updates, keyAt],
  );
  return {
    rowCount: count + pages.total(),
    rowAt,
    rowClass: (row) => (row < count ? 'inserted' : isRemoved(row) ? 'removed' : ''),
    cellClass,
    isRemoved,
    isNew: (row) => row < count,
    load: (from, to) => pages.load(Math.max(0, from - count), Math.max(0, to - count)),
    ...changersOf(table, staged, storedAt),
    storedAt,
  };
};

/** Pasted rows beyond the last row of the table are new ones. */
export const insertBelow = (staged: Staged, rows: readonly Row[]): Staged => stageInsert(staged, rows);
