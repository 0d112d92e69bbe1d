import type { Duplex } from 'node:stream';
import { tooMuch } from './answer-too-large.ts';

/** The bounds of an answer. */
export interface WatchLimits {
  /** The bytes that may arrive altogether before the connection is cut. */
  readonly maxBytes: number;
  /** The server has a time-out of its own; this one is for a server that says nothing any more. */
  readonly timeoutMs: number;
  /** Called every 50 ms from the moment when the answer has not come for {@link slowMs}. */
  readonly onSlow?: () => void;
}

/** No answer came within the time, and the connection was cut: what was asked for may go on. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';

  constructor() {
    super('Connection terminated: no answer came in time');
  }
}

interface Watch {
  readonly stream: Duplex;
  readonly maxBytes: number;
  readonly until: number;
  readonly fail: (error: Error) => void;
  readonly slowAt: number;
  readonly onSlow: (() => void) | undefined;
  bytes: number;
}

const checkMs = 50;
export const slowMs = 150;

// A timer and a listener for each answer cost as much as the rest of a query: one of either serves all of them.
const running = new Set<Watch>();
const byStream = new WeakMap<Duplex, Set<Watch>>();
let looking: NodeJS.Timeout | undefined;

const cut = ({ stream, fail }: Watch, error: Error): void => {
  fail(error);
  stream.destroy();
};

const check = (): void => {
  const now = performance.now();
  for (const watch of running) {
    if (watch.until < now) cut(watch, new NoAnswer());
    else if (watch.slowAt < now) watch.onSlow?.();
  }
  if (running.size > 0) return;
  clearInterval(looking);
  looking = undefined;
};

const watchesOf = (stream: Duplex): Set<Watch> => {
  const present = byStream.get(stream);
  if (present) return present;
  const made = new Set<Watch>();
  byStream.set(stream, made);
  stream.on('data', ({ length }: Buffer) => {
    for (const watch of made) {
      watch.bytes += length;
      if (watch.bytes > watch.maxBytes) cut(watch, tooMuch(`more than ${Math.floor(watch.maxBytes / 1024 / 1024)} MB`));
    }
  });
  return made;
};

/**
 * Cuts a connection whose answer is too large or does not come.
 * @param fail told why, before the connection is cut
 * @returns ends the watch
 */
export const watchAnswer = (
  stream: Duplex,
  { maxBytes, timeoutMs, onSlow }: WatchLimits,
  fail: (error: Error) => void,
): (() => void) => {
  const now = performance.now();
  const watch: Watch = { stream, maxBytes, until: now + timeoutMs, fail, slowAt: now + slowMs, onSlow, bytes: 0 };
  const ofStream = watchesOf(stream).add(watch);
  running.add(watch);
  looking ??= setInterval(check, checkMs).unref();
  return () => {
    ofStream.delete(watch);
    running.delete(watch);
  };
};
