import { useEffect, useRef, useSyncExternalStore } from 'react';

/*
 * Whether the platform answers. A request without an answer may be at fault by itself, so that an endpoint which needs
 * nothing is asked before anything is said; it is asked again, with a growing pause, until it answers.
 */

const firstPauseMs = 500;
const maxPauseMs = 5000;
/** A connection that is dead on the way says nothing for minutes. */
const maxSilenceMs = 20_000;

type Listener = (isReachable: boolean) => void;

const state = { isReachable: true, check: null as Promise<void> | null, listeners: new Set<Listener>() };

const setReachable = (isReachable: boolean): void => {
  if (state.isReachable === isReachable) return;
  state.isReachable = isReachable;
  for (const listener of state.listeners) listener(isReachable);
};

/** Gateways answer 502 to 504 in place of a platform that is away. */
const answers = async (): Promise<boolean> => {
  try {
    const { status } = await fetch('/healthz', { cache: 'no-store', signal: AbortSignal.timeout(maxSilenceMs) });
    return status < 500;
  } catch {
    return false;
  }
};

/** Ends early when the browser has a network again. */
const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener('online', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    globalThis.addEventListener('online', end);
  });

/** Nothing is asked for a page that nobody sees. */
const untilSeen = (): Promise<void> =>
  document.visibilityState === 'visible'
    ? Promise.resolve()
    : new Promise((resolve) =>
        document.addEventListener('visibilitychange', () => resolve(untilSeen()), { once: true }),
      );

const check = async (): Promise<void> => {
  let pauseMs = firstPauseMs;
  // oxlint-disable-next-line no-await-in-loop -- one request at a time
  while (!(await answers())) {
    setReachable(false);
    // Pauses differ, so that all open pages do not ask at the same time.
    // oxlint-disable-next-line no-await-in-loop -- as above
    await pause(pauseMs * (0.5 + Math.random()));
    // oxlint-disable-next-line no-await-in-loop -- as above
    await untilSeen();
    pauseMs = Math.min(maxPauseMs, 2 * pauseMs);
  }
  setReachable(true);
};

/** To be called after a request without an answer. Resolves when the platform answers. */
export const untilReachable = (): Promise<void> => {
  state.check ??= check().finally(() => {
    state.check = null;
  });
  return state.check;
};

/** Calls the listener whenever the platform becomes unreachable or reachable. @returns ends that */
export const onReachable = (listener: Listener): (() => void) => {
  state.listeners.add(listener);
  return () => state.listeners.delete(listener);
};

/** Calls `work` each time that the platform is reachable again. */
export const useWhenReachable = (work: () => void): void => {
  const latest = useRef(work);
  latest.current = work;
  useEffect(
    () =>
      onReachable((isReachable) => {
        if (isReachable) latest.current();
      }),
    [],
  );
};

export const useIsReachable = (): boolean => useSyncExternalStore(onReachable, () => state.isReachable);

globalThis.addEventListener('offline', () => void untilReachable());
