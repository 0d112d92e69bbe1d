import { textOf } from './exact-json.ts';
import { LongValue, type Row } from './values.ts';

/** A change of a row that is kept until all of them are saved together. */
interface RowEdit {
  readonly key: Row;
  /** The values that were seen. */
  readonly old: Row;
  readonly values: Row;
}

interface NewRow {
  readonly id: number;
  /** Columns that are missing get their default. */
  readonly values: Row;
}

/** Changes of a table that are not saved yet. */
export interface Staged {
  /** Shown above the rows of the table, the newest first. */
  readonly inserts: readonly NewRow[];
  readonly updates: Readonly<Record<string, RowEdit>>;
  readonly deletes: Readonly<Record<string, Omit<RowEdit, 'values'>>>;
}

export const nothingStaged: Staged = { inserts: [], updates: {}, deletes: {} };

export const countOf = ({ inserts, updates, deletes }: Staged): number =>
  inserts.length + Object.keys(updates).length + Object.keys(deletes).length;

/** The identity of a row: the values of its primary key, as a text. */
export const keyOf = (row: Row, primaryKey: readonly string[]): string =>
  primaryKey.map((name) => encodeURIComponent(textOf(row[name]))).join('&');

const pick = (row: Row, names: readonly string[]): Row => Object.fromEntries(names.map((name) => [name, row[name]]));

const without = <T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> =>
  Object.fromEntries(Object.entries(record).filter(([name]) => name !== key));

const isSame = (a: unknown, b: unknown): boolean =>
  a === b || (a !== null && b !== null && !(b instanceof LongValue) && textOf(a) === textOf(b));

interface Target {
  readonly row: Row;
  readonly primaryKey: readonly string[];
}

/** Sets values of a row of the table. What is as it was before is no change. */
export const stageUpdate = (staged: Staged, { row, primaryKey }: Target, values: Row): Staged => {
  const key = keyOf(row, primaryKey);
  const known = staged.updates[key];
  const old = { ...pick(row, Object.keys(values)), ...known?.old };
  const all = { ...known?.values, ...values };
  const names = Object.keys(all).filter((name) => !isSame(all[name], old[name]));
  const rest = without(staged.updates, key);
  if (names.length === 0) return { ...staged, updates: rest };
  const edit = { key: pick(row, primaryKey), old: pick(old, names), values: pick(all, names) };
  return { ...staged, updates: { ...rest, [key]: edit } };
};

/** Sets values of a row that is new; undefined is the default. */
export const stageInserted = (staged: Staged, id: number, values: Row): Staged => ({
  ...staged,
  inserts: staged.inserts.map((one) =>
    one.id === id
      ? {
          id,
          values: Object.fromEntries(
            Object.entries({ ...one.values, ...values }).filter(([, value]) => value !== undefined),
          ),
        }
      : one,
  ),
});

export const stageInsert = (staged: Staged, rows: readonly Row[]): Staged => {
  const next = Math.max(0, ...staged.inserts.map(({ id }) => id)) + 1;
  const added = rows.map((values, index) => ({ id: next + index, values }));
  return { ...staged, inserts: [...added, ...staged.inserts] };
};

export const unstageInsert = (staged: Staged, ids: readonly number[]): Staged => ({
  ...staged,
  inserts: staged.inserts.filter(({ id }) => !ids.includes(id)),
});

const seenOf = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => !(value instanceof LongValue)));

/** Deletes rows of the table. What is too long to be kept is not compared with what was seen. */
export const stageDelete = (staged: Staged, rows: readonly Target[]): Staged => {
  const removed = new Map(
    rows.map(({ row, primaryKey }) => [keyOf(row, primaryKey), { key: pick(row, primaryKey), old: seenOf(row) }]),
  );
  return {
    ...staged,
    updates: Object.fromEntries(Object.entries(staged.updates).filter(([key]) => !removed.has(key))),
    deletes: { ...staged.deletes, ...Object.fromEntries(removed) },
  };
};

/** Gives up what was to be done with a row of the table. */
export const unstage = (staged: Staged, key: string): Staged => ({
  ...staged,
  updates: without(staged.updates, key),
  deletes: without(staged.deletes, key),
});

/** Keeps a change although somebody else has changed the row: theirs are the values that were seen, now. */
export const rebase = (staged: Staged, key: string, theirs: Row): Staged => {
  const update = staged.updates[key];
  const removed = staged.deletes[key];
  return {
    ...staged,
    updates: update
      ? { ...staged.updates, [key]: { ...update, old: pick(theirs, Object.keys(update.old)) } }
      : staged.updates,
    deletes: removed
      ? { ...staged.deletes, [key]: { ...removed, old: pick(theirs, Object.keys(removed.old)) } }
      : staged.deletes,
  };
};

/** Both together, as far as one row is concerned the former's: what it does not change comes from the latter. */
export const mergeStaged = (own: Staged, other: Staged): Staged => {
  if (countOf(other) === 0) return own;
  const later = stageInsert(
    { ...nothingStaged, inserts: own.inserts },
    other.inserts.map(({ values }) => values),
  ).inserts;
  // The rows that were made first stay below.
  const inserts = [...own.inserts, ...later.slice(0, other.inserts.length)];
  const updates = Object.entries(other.updates).filter(([key]) => !Object.hasOwn(own.deletes, key));
  const deletes = Object.entries(other.deletes).filter(([key]) => !Object.hasOwn(own.updates, key));
  const both = updates.map(([key, edit]): [string, RowEdit] => {
    const known = own.updates[key];
    return [
      key,
      known === undefined
        ? edit
        : { key: edit.key, old: { ...edit.old, ...known.old }, values: { ...edit.values, ...known.values } },
    ];
  });
  return {
    inserts,
    updates: { ...own.updates, ...Object.fromEntries(both) },
    deletes: { ...Object.fromEntries(deletes), ...own.deletes },
  };
};

type Change =
  | { readonly kind: 'insert'; readonly values: Record<string, unknown> }
  | {
      readonly kind: 'update';
      readonly key: Record<string, unknown>;
      readonly old: Record<string, unknown>;
      readonly values: Record<string, unknown>;
    }
  | { readonly kind: 'delete'; readonly key: Record<string, unknown>; readonly old: Record<string, unknown> };

interface Changes {
  readonly changes: Change[];
  /** The key of the row that each of them changes; null: it is new. */
  readonly keys: readonly (string | null)[];
}

/** The old value of what is too long to be kept is not compared. */
const comparable = (old: Row): Record<string, unknown> =>
  Object.fromEntries(Object.entries(old).filter(([, value]) => !(value instanceof LongValue)));

/** As the API takes them. Deletes come first, so that a new row may have a value that was taken. */
export const changesOf = ({ inserts, updates, deletes }: Staged): Changes => {
  const removed = Object.entries(deletes).map(([id, { key, old }]) => ({
    id,
    change: { kind: 'delete' as const, key: { ...key }, old: comparable(old) },
  }));
  const changed = Object.entries(updates).map(([id, { key, old, values }]) => ({
    id,
    change: { kind: 'update' as const, key: { ...key }, old: comparable(old), values: { ...values } },
  }));
  const added = inserts
    .toReversed()
    .map(({ values }) => ({ id: null, change: { kind: 'insert' as const, values: { ...values } } }));
  const all = [...removed, ...changed, ...added];
  return { changes: all.map(({ change }) => change), keys: all.map(({ id }) => id) };
};
