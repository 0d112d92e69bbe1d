import { useCallback, useState } from 'react';
import { parseExact } from '../../client/exact-json.ts';
import { type Staged, countOf, nothingStaged } from '../../client/staged.ts';

const maxPast = 200;

interface History {
  readonly past: readonly Staged[];
  readonly present: Staged;
  readonly future: readonly Staged[];
}

const kept = (name: string): Staged => {
  try {
    const text = sessionStorage.getItem(name);
    return text === null ? nothingStaged : { ...nothingStaged, ...(parseExact(text, true) as Staged) };
  } catch {
    return nothingStaged;
  }
};

/**
 * In the storage of this one tab: two tabs of a table have changes of their own. It is limited, and a change that does
 * not fit is kept in memory only.
 */
const keep = (name: string, staged: Staged): void => {
  try {
    if (countOf(staged) === 0) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(staged));
  } catch {
    sessionStorage.removeItem(name);
  }
};

export interface StagedChanges {
  readonly staged: Staged;
  readonly change: (next: Staged) => void;
  readonly undo: () => void;
  readonly redo: () => void;
  /** Forgets everything, with what could be undone. */
  readonly clear: () => void;
  readonly canUndo: boolean;
}

/** Changes of one table that are not saved yet, with undo. They are kept in the browser until they are. */
export const useStaged = (name: string): StagedChanges => {
  const [history, setHistory] = useState<History>(() => ({ past: [], present: kept(name), future: [] }));
  const update = useCallback(
    (work: (known: History) => History): void =>
      setHistory((known) => {
        const next = work(known);
        if (next.present !== known.present) keep(name, next.present);
        return next;
      }),
    [name],
  );
  return {
    staged: history.present,
    change: (present) =>
      update((known) => ({ past: [...known.past, known.present].slice(-maxPast), present, future: [] })),
    undo: () =>
      update((known) => {
        const present = known.past.at(-1);
        if (present === undefined) return known;
        return { past: known.past.slice(0, -1), present, future: [known.present, ...known.future] };
      }),
    redo: () =>
      update((known) => {
        const [present, ...future] = known.future;
        return present === undefined ? known : { past: [...known.past, known.present], present, future };
      }),
    clear: () => update(() => ({ past: [], present: nothingStaged, future: [] })),
    canUndo: history.past.length > 0,
  };
};
