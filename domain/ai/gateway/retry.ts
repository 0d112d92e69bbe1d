import type { Departure } from '#lib/departure.ts';
import { ProviderFault } from '../providers/dialect.ts';
import { isConnectTimeout } from '../providers/transport.ts';

const maxRetries = 2;
/** Whatever the provider says. */
const maxTries = 5;
const firstPauseMs = 200;
/** A pause that a provider asks for is observed, up to this sum. */
const maxWaitMs = 10_000;
// A provider that says 0 is not asked in the same moment.
const minWaitMs = 100;

interface Tried {
  tries: number;
  failures: number;
  /** For what the provider asked for. */
  waitedMs: number;
}

/** It could not serve, or was not reached. */
const isWorthAnother = (fault: ProviderFault): boolean =>
  fault.kind === 'unavailable' || fault.kind === 'unreachable' || isConnectTimeout(fault);

/** How long to wait before it is asked again; null: not again. */
const pauseAfter = (error: unknown, tried: Tried): number | null => {
  tried.tries += 1;
  if (!(error instanceof ProviderFault) || tried.tries === maxTries) return null;
  if (error.kind === 'rate_limited' && error.retryAfterMs !== null) {
    const waitMs = Math.max(error.retryAfterMs, minWaitMs);
    tried.waitedMs += waitMs;
    return tried.waitedMs <= maxWaitMs ? waitMs : null;
  }
  if (!isWorthAnother(error)) return null;
  tried.failures += 1;
  // Full jitter: what failed together does not come back together.
  return tried.failures > maxRetries ? null : Math.random() * firstPauseMs * 2 ** (tried.failures - 1);
};

/** Ends early when the caller has left. */
const pause = (ms: number, abort: Departure): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      abort.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    abort.addEventListener('abort', done);
  });

/**
 * Asks again what failed before its first byte: 5xx and connections that are lost or not made twice, a 429 as the provider
 * requests, up to 10 s in all; five times at most, the first included.
 */
export const withRetries = async <T>(attempt: () => Promise<T>, abort: Departure): Promise<T> => {
  const tried: Tried = { tries: 0, failures: 0, waitedMs: 0 };
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const pauseMs = abort.aborted ? null : pauseAfter(error, tried);
      if (pauseMs === null) throw error;
      await pause(pauseMs, abort);
      if (abort.aborted) throw error;
    }
  }
};
