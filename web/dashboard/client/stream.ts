import { untilReachable } from './reach.ts';

const retryMs = 10_000;

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });

/** Resolves when the browser has given up, or at the abort. */
const connect = (at: string, signal: AbortSignal, listen: (source: EventSource) => void): Promise<void> =>
  new Promise((resolve) => {
    const source = new EventSource(at);
    const end = (): void => {
      source.close();
      signal.removeEventListener('abort', end);
      resolve();
    };
    source.addEventListener('error', () => {
      void untilReachable();
      if (source.readyState === EventSource.CLOSED) end();
    });
    signal.addEventListener('abort', end);
    listen(source);
  });

/**
 * A stream of events until the abort. A broken connection is made again by the browser, which says what its last event
 * was; after an answer such as 503 the browser gives up, and a new connection is made here.
 * @param listen is called with each connection that is made here
 */
export const stream = async (at: string, signal: AbortSignal, listen: (source: EventSource) => void): Promise<void> => {
  while (!signal.aborted) {
    // oxlint-disable-next-line no-await-in-loop -- one connection at a time
    await connect(at, signal, listen);
    // oxlint-disable-next-line no-await-in-loop -- as above
    if (!signal.aborted) await pause(retryMs, signal);
  }
};
