import { useCallback, useEffect, useRef, useState } from 'react';
import { randomId } from './random-id.ts';

/** The snippet that a tab shows: what the server has of it. */
export interface BoundSnippet {
  readonly id: string;
  /** The version that the text here is based on. */
  readonly version: number;
  readonly shared: boolean;
  /** The text of that version. */
  readonly saved: string;
}

/** A text of SQL that is being written. */
export interface SqlTab {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  /** Goes up with each change: who writes knows whether somebody else has written in between. */
  readonly revision: number;
  readonly snippet: BoundSnippet | null;
}

interface Store {
  readonly list: string;
  readonly tab: (id: string) => string;
}

const storeOf = (projectId: string): Store => ({
  list: `sql:${projectId}:tabs`,
  tab: (id) => `sql:${projectId}:tab:${id}`,
});

const readJson = (name: string): unknown => {
  try {
    return JSON.parse(localStorage.getItem(name) ?? 'null') as unknown;
  } catch {
    return null;
  }
};

const readTab = (store: Store, id: string): SqlTab | null => {
  const tab = readJson(store.tab(id)) as SqlTab | null;
  return typeof tab?.text === 'string' ? tab : null;
};

const idsOf = (store: Store): string[] => {
  const ids = readJson(store.list);
  return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
};

const readAll = (store: Store): SqlTab[] => idsOf(store).flatMap((id) => readTab(store, id) ?? []);

const write = (store: Store, tab: SqlTab): void => localStorage.setItem(store.tab(tab.id), JSON.stringify(tab));

const newTab = (name: string, text: string, snippet: BoundSnippet | null = null): SqlTab => ({
  id: randomId(),
  name,
  text,
  revision: 1,
  snippet,
});

/** The list is read before it is written: a tab that was opened in another window stays. */
const add = (store: Store, tab: SqlTab): void => {
  write(store, tab);
  localStorage.setItem(store.list, JSON.stringify([...idsOf(store), tab.id]));
};

const nextName = (tabs: readonly SqlTab[]): string => {
  for (let number = tabs.length + 1; ; number += 1) {
    const name = `Query ${number}`;
    if (!tabs.some((tab) => tab.name === name)) return name;
  }
};

const first = (store: Store, text: string): SqlTab[] => {
  if (readAll(store).length === 0) add(store, newTab('Query 1', text));
  return readAll(store);
};

export interface SqlTabs {
  readonly tabs: readonly SqlTab[];
  readonly fault: string | null;
  /** Writes a tab. When another window has written it since, this becomes a tab of its own. @returns its id */
  readonly change: (tab: SqlTab, next: Partial<Pick<SqlTab, 'text' | 'name' | 'snippet'>>) => string;
  readonly open: (more?: { name?: string; text?: string; snippet?: BoundSnippet | null }) => string;
  readonly close: (id: string) => void;
}

type Changes = Parameters<SqlTabs['change']>[1];

/** Writes upon what is stored, unless that has another text than this window knows: then it becomes a tab of its own. */
const changeTab = (store: Store, tab: SqlTab, next: Changes, known = tab.revision): string => {
  const stored = readTab(store, tab.id) ?? tab;
  if (next.text === undefined || stored.revision === known || stored.text === next.text) {
    write(store, { ...stored, ...next, revision: stored.revision + 1 });
    return tab.id;
  }
  const copy = newTab(`${tab.name} (mine)`, next.text);
  add(store, copy);
  return copy.id;
};

const openTab = (store: Store, { name, text = '', snippet = null }: NonNullable<Parameters<SqlTabs['open']>[0]>) => {
  const tab = newTab(name ?? nextName(readAll(store)), text, snippet);
  add(store, tab);
  return tab.id;
};

const closeTab = (store: Store, id: string): void => {
  localStorage.setItem(store.list, JSON.stringify(idsOf(store).filter((one) => one !== id)));
  localStorage.removeItem(store.tab(id));
  first(store, '');
};

/** The tabs of the SQL page, kept in the browser with each key that is pressed, for all of its windows. */
export const useSqlTabs = (projectId: string, example: string): SqlTabs => {
  const [tabs, setTabs] = useState<readonly SqlTab[]>(() => first(storeOf(projectId), example));
  const [fault, setFault] = useState<string | null>(null);
  // Keys are pressed faster than the page is drawn: the revisions that this window knows are not those of its state.
  const known = useRef(new Map<string, number>());
  const load = useCallback((store: Store): void => {
    const all = readAll(store);
    known.current = new Map(all.map(({ id, revision }) => [id, revision]));
    setTabs(all);
  }, []);
  useEffect(() => {
    const store = storeOf(projectId);
    load(store);
    const reload = ({ key }: StorageEvent): void => {
      if (key === null || key.startsWith(`sql:${projectId}:`)) load(store);
    };
    globalThis.addEventListener('storage', reload);
    return () => globalThis.removeEventListener('storage', reload);
  }, [projectId, load]);
  const attempt = useCallback(
    <T>(work: (store: Store) => T, otherwise: T): T => {
      const store = storeOf(projectId);
      try {
        const done = work(store);
        setFault(null);
        load(store);
        return done;
      } catch {
        setFault(
          'The storage of this browser is full: what is typed now is not kept. Close tabs that you do not need.',
        );
        return otherwise;
      }
    },
    [projectId, load],
  );
  return {
    tabs,
    fault,
    change: (tab, next) => attempt((store) => changeTab(store, tab, next, known.current.get(tab.id)), tab.id),
    open: (more = {}) => attempt((store) => openTab(store, more), tabs[0]?.id ?? ''),
    close: (id) => attempt((store) => closeTab(store, id), undefined),
  };
};
