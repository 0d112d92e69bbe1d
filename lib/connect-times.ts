import { loopLagged } from './loop-lag.ts';

/** A connection counts for one to two such spans. */
const spanMs = 30_000;
/** A server that is there answers within four times of what the slowest of the latest connections took. */
const factor = 4;
/** Less than the 8 s that a statement waits for a connection, so that a server that is down is reported as such. */
const maxMs = 6000;

/**
 * Tells a database server that is down from one that is slow: on a busy machine the server's new process gets a
 * processor late, while the event loop of this one keeps up. What other connections took within the last half minute or
 * minute says how long that lasts now. A server that slows down at once from a few milliseconds to seconds is taken for
 * one that is down, since no connection has shown it.
 * @param lagged whether this process's own event loop lagged within so many milliseconds: the times of its connections
 *   say nothing about the server then
 */
export const createConnectTimes = (
  now: () => number = () => performance.now(),
  lagged: (withinMs: number) => boolean = loopLagged,
) => {
  let span = 0;
  let [slowest, slowestBefore] = [0, 0];
  const turn = (): void => {
    const current = Math.floor(now() / spanMs);
    if (current === span) return;
    [slowestBefore, slowest] = [current === span + 1 ? slowest : 0, 0];
    span = current;
  };
  return {
    /** Records that a connection was opened in so many milliseconds. */
    note: (ms: number): void => {
      turn();
      if (!lagged(ms)) slowest = Math.max(slowest, ms);
    },
    /** The milliseconds that a new connection may take: `usualMs`, and up to 6 s where others are slow. */
    patience: (usualMs: number): number => {
      turn();
      return Math.max(usualMs, Math.min(maxMs, factor * Math.max(slowest, slowestBefore)));
    },
  };
};

/** The times of the connections to PostgreSQL that this process opens. */
export const connectTimes = createConnectTimes();
