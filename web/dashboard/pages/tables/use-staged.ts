import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { keptChanges } from '../../client/kept-changes.ts';
import { type Staged, mergeStaged, nothingStaged } from '../../client/staged.ts';

const maxPast = 200;

interface History {
  readonly past: readonly Staged[];
  readonly present: Staged;
  readonly future: readonly Staged[];
}

const empty: History = { past: [], present: nothingStaged, future: [] };

export interface StagedChanges {
  readonly staged: Staged;
  /** False: the browser has no room for them, so they are lost with this window. */
  readonly isKept: boolean;
  readonly change: (next: Staged) => void;
  readonly undo: () => void;
  readonly redo: () => void;
  /** Forgets everything, with what could be undone. */
  readonly clear: () => void;
  readonly canUndo: boolean;
}

/** Writes what is staged whenever it changes, once it is known what was kept. */
const useKeeping = (projectId: string, table: string, staged: Staged, onLoaded: (kept: Staged) => void): boolean => {
  const kept = useMemo(() => keptChanges({ projectId, table }), [projectId, table]);
  const [isKept, setKept] = useState(true);
  const [isLoaded, setLoaded] = useState(false);
  const loaded = useRef(onLoaded);
  loaded.current = onLoaded;
  useEffect(() => {
    let isCurrent = true;
    const load = async (): Promise<void> => {
      const known = await kept.load();
      if (!isCurrent) return;
      loaded.current(known);
      setLoaded(true);
      await kept.othersClosed();
      if (isCurrent) loaded.current(await kept.takeLeft());
    };
    void load();
    return () => {
      isCurrent = false;
    };
  }, [kept]);
  useEffect(() => {
    if (isLoaded) void kept.save(staged).then(setKept);
  }, [kept, isLoaded, staged]);
  return isKept;
};

/** Changes of one table that are not saved yet, with undo. They are kept in the browser until they are. */
export const useStaged = (projectId: string, table: string): StagedChanges => {
  const [history, setHistory] = useState(empty);
  const addKept = useCallback(
    (kept: Staged) => setHistory((known) => ({ ...known, present: mergeStaged(known.present, kept) })),
    [],
  );
  const isKept = useKeeping(projectId, table, history.present, addKept);
  return {
    staged: history.present,
    isKept,
    change: (present) =>
      setHistory((known) => ({ past: [...known.past, known.present].slice(-maxPast), present, future: [] })),
    undo: () =>
      setHistory((known) => {
        const present = known.past.at(-1);
        if (present === undefined) return known;
        return { past: known.past.slice(0, -1), present, future: [known.present, ...known.future] };
      }),
    redo: () =>
      setHistory((known) => {
        const [present, ...future] = known.future;
        return present === undefined ? known : { past: [...known.past, known.present], present, future };
      }),
    clear: () => setHistory(empty),
    canUndo: history.past.length > 0,
  };
};
