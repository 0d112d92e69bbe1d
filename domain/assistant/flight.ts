import type { Disconnection } from '#lib/disconnection.ts';

/** An answer that is being written, for all who wait for it. */
export interface Flight {
  /** Resolves with the first piece, or at the end; rejects when it fails before. */
  readonly started: Promise<void>;
  /** The whole answer. */
  readonly whole: Promise<string>;
  /** Yields the pieces so far, then those that come. Throws where the stream breaks. */
  readonly pieces: () => AsyncGenerator<string, void>;
  /** One more waits, until it leaves; once all have left, the writing is stopped. */
  readonly join: (waiter: Disconnection) => void;
}

/** Writes the answer piece by piece; the signal is aborted when the last reader has left. */
export type Writer = (signal: AbortSignal, emit: (piece: string) => void) => Promise<void>;

/** An answer is short: written pieces are kept for later readers, and no slow reader delays the others. */
export const startFlight = (write: Writer): Flight & { readonly signal: AbortSignal } => {
  const controller = new AbortController();
  const started = Promise.withResolvers<void>();
  let text = '';
  let ended = false;
  let waiting = 0;
  let next = Promise.withResolvers<void>();

  const notify = (): void => {
    next.resolve();
    next = Promise.withResolvers();
  };
  const emit = (piece: string): void => {
    text += piece;
    started.resolve();
    notify();
  };
  const whole = write(controller.signal, emit)
    .then(() => text)
    .finally(() => {
      ended = true;
      notify();
    });
  whole.then(() => started.resolve(), started.reject);
  // Waiting readers learn of the end by what they wait for; all of them may have left.
  started.promise.catch(() => undefined);

  return {
    started: started.promise,
    whole,
    signal: controller.signal,
    pieces: async function* pieces() {
      for (let sent = 0; ;) {
        const more = next.promise;
        const piece = text.slice(sent);
        sent += piece.length;
        if (piece !== '') yield piece;
        else if (ended) break;
        else await more;
      }
      await whole;
    },
    join: (waiter) => {
      waiting += 1;
      const leave = (): void => {
        waiting -= 1;
        if (waiting === 0 && !ended) controller.abort();
      };
      if (waiter.aborted) leave();
      else waiter.addEventListener('abort', leave, { once: true });
    },
  };
};
