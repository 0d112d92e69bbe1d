import { parseExact } from './exact-json.ts';
import { hasLocks, livingWindows, ownWindow, untilClosed } from './own-window.ts';
import { type Staged, countOf, mergeStaged, nothingStaged } from './staged.ts';
import { LongValue } from './values.ts';

/*
 * Changes of tables that are not saved yet, kept in the browser for each window by itself: two windows of a table have
 * changes of their own. A window that was closed, or whose browser crashed, leaves its changes behind; the next one that
 * shows the table takes them over. Where nobody can tell which windows live, each has its own changes only.
 */

/** The limit for one window and table; the browser has some 5 MB for everything. */
const maxLength = 1_000_000;
/** Changes that nobody has come back for are forgotten. */
const maxAgeMs = 30 * 24 * 3_600_000;

interface Place {
  readonly projectId: string;
  readonly table: string;
}

const rootOf = (projectId: string): string => `staged:${projectId}:`;
const keyOf = ({ projectId, table }: Place, windowId: string): string => `${rootOf(projectId)}${windowId}:${table}`;
const idLength = 36;

interface Kept {
  readonly at: number;
  readonly staged: Staged;
}

const read = (key: string): Kept | null => {
  try {
    const kept = parseExact(localStorage.getItem(key) ?? 'null', true) as Kept | null;
    return kept === null ? null : { at: kept.at, staged: { ...nothingStaged, ...kept.staged } };
  } catch {
    return null;
  }
};

/** Leaves out values that are too long to be kept: their beginnings would not be equal to the values that were seen. */
const withoutLong = (_key: string, value: unknown): unknown => (value instanceof LongValue ? undefined : value);

const removeOld = (): void => {
  for (const key of Object.keys(localStorage).filter((name) => name.startsWith('staged:'))) {
    const kept = read(key);
    if (kept === null || !(Date.now() - kept.at < maxAgeMs)) localStorage.removeItem(key);
  }
};

/** The changes of a table that other windows keep, or have left: their windows by key, the oldest changes first. */
const others = (place: Place, own: string): ReadonlyMap<string, string> => {
  const root = rootOf(place.projectId);
  const found = Object.keys(localStorage)
    .filter((key) => key.startsWith(root))
    .map((key): [string, string] => [key, key.slice(root.length, root.length + idLength)])
    .filter(([key, id]) => id !== own && key === keyOf(place, id));
  return new Map(found.toSorted(([a], [b]) => (read(a)?.at ?? 0) - (read(b)?.at ?? 0)));
};

const save = (key: string, staged: Staged): boolean => {
  try {
    if (countOf(staged) === 0) {
      localStorage.removeItem(key);
      return true;
    }
    const text = JSON.stringify({ at: Date.now(), staged } satisfies Kept, withoutLong);
    if (text.length > maxLength) return false;
    localStorage.setItem(key, text);
    return true;
  } catch {
    return false;
  }
};

/** Makes the changes that closed windows have left this window's own. @returns those changes */
const takeLeft = async (place: Place, own: string): Promise<Staged> => {
  if (!hasLocks()) return nothingStaged;
  // One window at a time, so that no two take the same changes over.
  return navigator.locks.request('plinth staged', async () => {
    const left = others(place, own);
    const living = await livingWindows([...left.values()]);
    const key = keyOf(place, own);
    let taken = nothingStaged;
    for (const [other, id] of left) {
      if (living.has(id)) continue;
      const staged = read(other)?.staged ?? nothingStaged;
      // Changes that do not fit stay where they are.
      if (!save(key, mergeStaged(read(key)?.staged ?? nothingStaged, staged))) break;
      localStorage.removeItem(other);
      taken = mergeStaged(taken, staged);
    }
    return taken;
  });
};

/** Where the changes of one table are kept for this window. */
export interface KeptChanges {
  /** The changes of this window, with those that closed ones have left. They are its own from then on. */
  readonly load: () => Promise<Staged>;
  /** Waits ten seconds at most for windows that are just being closed. */
  readonly othersClosed: () => Promise<void>;
  /** The changes that closed windows have left, alone. */
  readonly takeLeft: () => Promise<Staged>;
  /** @returns false: they are not kept, because they are too long or the browser has no room */
  readonly save: (staged: Staged) => Promise<boolean>;
}

export const keptChanges = (place: Place): KeptChanges => ({
  load: async () => {
    const own = await ownWindow();
    removeOld();
    await takeLeft(place, own);
    return read(keyOf(place, own))?.staged ?? nothingStaged;
  },
  othersClosed: async () => {
    if (hasLocks()) await Promise.all([...others(place, await ownWindow()).values()].map(untilClosed));
  },
  takeLeft: async () => takeLeft(place, await ownWindow()),
  save: async (staged) => save(keyOf(place, await ownWindow()), staged),
});
