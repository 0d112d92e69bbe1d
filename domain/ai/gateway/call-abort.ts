import type { Departure } from '#lib/departure.ts';

/** Why a call is given up before its end. */
export type CallAbortReason = 'left' | 'refused' | 'closing';

/**
 * Aborts one call at its provider: when its caller leaves, and when it turns out that the call may not be made. An
 * AbortSignal of both would cost more than the rest of it.
 */
export class CallAbort implements Departure {
  readonly #listeners = new Set<() => void>();
  readonly #caller: Departure;
  reason: CallAbortReason | null = null;
  /** The error of a refusal. */
  error: unknown = null;

  constructor(caller: Departure) {
    this.#caller = caller;
    if (caller.aborted) this.reason = 'left';
    else caller.addEventListener('abort', this.#left);
  }

  readonly #left = (): void => this.abort('left');

  get aborted(): boolean {
    return this.reason !== null;
  }

  /** The first reason counts. */
  abort(reason: CallAbortReason, error: unknown = null): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.error = error;
    for (const listener of this.#listeners) listener();
  }

  /** The call is over: its listeners are removed. */
  settle(): void {
    this.#caller.removeEventListener('abort', this.#left);
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }
}
