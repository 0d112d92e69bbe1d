/**
 * Signals that the client disconnected. Every AbortSignal is one; objects that are made for each request have no more
 * than this, since the signal and its events cost 2 µs.
 */
export interface Disconnection {
  readonly aborted: boolean;
  readonly addEventListener: (type: 'abort', listener: () => void, options?: { readonly once: boolean }) => void;
  readonly removeEventListener: (type: 'abort', listener: () => void) => void;
}

/** The same as an AbortSignal, for callees that need a real one. */
export const abortSignalOf = (disconnection: Disconnection): AbortSignal => {
  const controller = new AbortController();
  if (disconnection.aborted) controller.abort();
  disconnection.addEventListener('abort', () => controller.abort(), { once: true });
  return controller.signal;
};
