const rememberedMs = 60_000;
/** A server that is there answers within four times of what the slowest connection of the last minute took. */
const factor = 4;
/** Less than the 8 s that a statement waits for a connection, so that a server that is down is reported as such. */
const maxMs = 6000;

interface Seen {
  readonly ms: number;
  readonly at: number;
}

/**
 * Tells a database server that is down from one that is slow: on a busy machine the server's new process gets a
 * processor late, while the event loop of this one keeps up. What other connections took lately says how long that
 * lasts now.
 */
export const createConnectTimes = (now: () => number = () => performance.now()) => {
  let slowest: Seen = { ms: 0, at: Number.NEGATIVE_INFINITY };
  const current = (): Seen => (now() - slowest.at < rememberedMs ? slowest : { ms: 0, at: now() });
  return {
    /** Records that a connection was opened in so many milliseconds. */
    note: (ms: number): void => {
      if (ms >= current().ms) slowest = { ms, at: now() };
    },
    /** The milliseconds that a new connection may take: `usualMs`, and up to 6 s where others are slow. */
    patience: (usualMs: number): number => Math.max(usualMs, Math.min(maxMs, factor * current().ms)),
  };
};

/** The times of the connections to PostgreSQL that this process opens. */
export const connectTimes = createConnectTimes();
