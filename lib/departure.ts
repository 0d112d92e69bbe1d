/**
 * Signals that a caller no longer waits. Every AbortSignal is one; objects that are made for each request have no more
 * than this, since the signal and its events cost 2 µs.
 */
export interface Departure {
  readonly aborted: boolean;
  readonly addEventListener: (type: 'abort', listener: () => void, options?: { readonly once: boolean }) => void;
  readonly removeEventListener: (type: 'abort', listener: () => void) => void;
}

/** The same as an AbortSignal, for the few who need one. */
export const abortSignalOf = (departure: Departure): AbortSignal => {
  const gone = new AbortController();
  if (departure.aborted) gone.abort();
  departure.addEventListener('abort', () => gone.abort(), { once: true });
  return gone.signal;
};
