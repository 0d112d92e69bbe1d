import type { Row } from './values.ts';

/** Rows of one request. */
export const pageSize = 100;
/** Rows that were scrolled past are forgotten beyond these pages, so that memory does not grow with a table. */
const maxPages = 40;
/** A hand on the scroll bar passes many pages: requests wait until it rests for so long. */
const pauseMs = 40;

export interface PageRequest {
  readonly page: number;
  /** The last row of the page before, where that is known: reading on from it is faster than counting to it. */
  readonly after: Row | null;
  readonly signal: AbortSignal;
}

export interface PageAnswer {
  readonly rows: readonly Row[];
  /** The number of rows in the whole table; null when they were not counted. */
  readonly total: number | null;
}

export interface RowPages {
  readonly subscribe: (listener: () => void) => () => void;
  /** Changes whenever something that is read here has changed. */
  readonly version: () => number;
  readonly rowAt: (row: number) => Row | undefined;
  readonly total: () => number;
  readonly error: () => unknown;
  readonly isPending: () => boolean;
  readonly show: (from: number, to: number) => void;
  /** Resolves when these rows are there. */
  readonly load: (from: number, to: number) => Promise<void>;
  /** Reads everything in sight again; what is shown stays until then. */
  readonly reload: () => void;
  readonly close: () => void;
}

interface State {
  readonly pages: Map<number, readonly Row[]>;
  readonly running: Map<number, { readonly controller: AbortController; readonly done: Promise<void> }>;
  readonly listeners: Set<() => void>;
  version: number;
  total: number | null;
  /** Where a page came that was not full: there are no rows from here on. */
  end: number | null;
  error: unknown;
  visible: readonly number[];
  /** Pages that are shown and are to be read again. */
  stale: Set<number>;
  timer: ReturnType<typeof setTimeout> | undefined;
}

const changed = (state: State): void => {
  state.version += 1;
  for (const listener of state.listeners) listener();
};

/** An estimate may be too low: rows that were seen, and a page after a full one, are always there. */
const totalOf = ({ pages, total, end }: State): number => {
  if (end !== null) return end;
  const seen = Math.max(0, ...[...pages].map(([page, { length }]) => page * pageSize + length));
  const isFull = pages.get(Math.ceil(seen / pageSize) - 1)?.length === pageSize;
  return Math.max(total ?? 0, seen + (isFull && seen >= (total ?? 0) ? pageSize : 0));
};

/** Where the rows end, as far as that is known, once a page has come. */
const endAfter = (known: number | null, page: number, count: number): number | null => {
  const last = page * pageSize + count;
  // An empty page says only that they end before it.
  if (count === 0 && page > 0) return Math.min(known ?? Infinity, last);
  if (count < pageSize) return last;
  return known !== null && last > known ? null : known;
};

const keep = (state: State, page: number, { rows, total }: PageAnswer): void => {
  state.pages.delete(page);
  state.pages.set(page, rows);
  state.stale.delete(page);
  if (total !== null) state.total = total;
  state.end = endAfter(state.end, page, rows.length);
  for (const old of state.pages.keys()) {
    if (state.pages.size <= maxPages) break;
    if (!state.visible.includes(old)) state.pages.delete(old);
  }
};

const begin = (state: State, page: number, read: (request: PageRequest) => Promise<PageAnswer>): Promise<void> => {
  const known = state.running.get(page);
  if (known !== undefined) return known.done;
  const controller = new AbortController();
  const before = state.stale.has(page - 1) ? undefined : state.pages.get(page - 1);
  const after = before?.length === pageSize ? (before.at(-1) ?? null) : null;
  const done = (async () => {
    try {
      keep(state, page, await read({ page, after, signal: controller.signal }));
      state.error = null;
    } catch (error) {
      if (!controller.signal.aborted) state.error = error;
    } finally {
      if (state.running.get(page)?.controller === controller) state.running.delete(page);
      changed(state);
    }
  })();
  state.running.set(page, { controller, done });
  return done;
};

const pagesBetween = (from: number, to: number): number[] => {
  const [first, last] = [Math.floor(from / pageSize), Math.floor(Math.max(from, to - 1) / pageSize)];
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
};

const isMissing = ({ pages, stale }: State, page: number): boolean => !pages.has(page) || stale.has(page);

/** Rows of a table, page by page as they come in sight; requests for those that were scrolled past are given up. */
export const createRowPages = (read: (request: PageRequest) => Promise<PageAnswer>): RowPages => {
  const state: State = {
    pages: new Map(),
    running: new Map(),
    listeners: new Set(),
    version: 0,
    total: null,
    end: null,
    error: null,
    visible: [0],
    stale: new Set(),
    timer: undefined,
  };
  const request = (): void => {
    for (const [page, { controller }] of state.running) {
      if (!state.visible.includes(page) && page !== 0) {
        controller.abort();
        state.running.delete(page);
      }
    }
    for (const page of state.visible) if (isMissing(state, page)) void begin(state, page, read);
  };
  return {
    subscribe: (listener) => {
      state.listeners.add(listener);
      if (isMissing(state, 0)) void begin(state, 0, read);
      return () => state.listeners.delete(listener);
    },
    version: () => state.version,
    rowAt: (row) => state.pages.get(Math.floor(row / pageSize))?.[row % pageSize],
    total: () => totalOf(state),
    error: () => state.error,
    isPending: () => state.pages.size === 0 && state.error === null,
    show: (from, to) => {
      state.visible = pagesBetween(from, to);
      clearTimeout(state.timer);
      if (state.visible.some((page) => isMissing(state, page))) state.timer = setTimeout(request, pauseMs);
    },
    load: async (from, to) => {
      for (const page of pagesBetween(from, to)) if (isMissing(state, page)) await begin(state, page, read);
      if (state.error instanceof Error) throw state.error;
    },
    reload: () => {
      for (const { controller } of state.running.values()) controller.abort();
      state.running.clear();
      for (const page of state.pages.keys()) {
        if (state.visible.includes(page) || page === 0) state.stale.add(page);
        else state.pages.delete(page);
      }
      state.end = null;
      void begin(state, 0, read);
      request();
    },
    close: () => {
      clearTimeout(state.timer);
      for (const { controller } of state.running.values()) controller.abort();
    },
  };
};
