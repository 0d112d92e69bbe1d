import { randomId } from './random-id.ts';

/*
 * Each window has a name, which it keeps when it is loaded again, and holds a lock of that name as long as it lives.
 * Browsers have locks in secure contexts only: on a plain HTTP address nobody can tell which windows live.
 */

const windowName = 'staged-window';
const lockOf = (id: string): string => `plinth staged ${id}`;
/** A window that is loaded again gets its lock from its former page within that time. */
const ownLockMs = 1000;
const closingMs = 10_000;

export const hasLocks = (): boolean => 'locks' in navigator;

/** Waits until the lock is this window's; false: another window has it. */
const takeLock = (id: string, signal?: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    const holding = navigator.locks.request(lockOf(id), signal === undefined ? {} : { signal }, () => {
      resolve(true);
      return new Promise(() => undefined);
    });
    holding.catch(() => resolve(false));
  });

const claimWindow = async (): Promise<string> => {
  const known = sessionStorage.getItem(windowName);
  // A window that was duplicated has the name of the one that it was made of.
  if (known !== null && (!hasLocks() || (await takeLock(known, AbortSignal.timeout(ownLockMs))))) return known;
  const id = randomId();
  sessionStorage.setItem(windowName, id);
  if (hasLocks()) await takeLock(id);
  return id;
};

let claimed: Promise<string> | undefined;
/** The name of this window. */
export const ownWindow = (): Promise<string> => (claimed ??= claimWindow());

/** Holds the lock of this window again as soon as it is loaded, whichever page it shows. */
export const keepWindow = (): void => {
  if (sessionStorage.getItem(windowName) !== null) void ownWindow();
};

/** The names of the windows that live. */
export const livingWindows = async (ids: readonly string[]): Promise<ReadonlySet<string>> => {
  const held = new Set(((await navigator.locks.query()).held ?? []).map(({ name }) => name));
  return new Set(ids.filter((id) => held.has(lockOf(id))));
};

/** Resolves when a window has closed, or after ten seconds: one that is closing has its lock until its process ends. */
export const untilClosed = (id: string): Promise<void> =>
  navigator.locks
    .request(lockOf(id), { mode: 'shared', signal: AbortSignal.timeout(closingMs) }, () => undefined)
    .catch(() => undefined);
