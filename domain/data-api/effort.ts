import type { ClientBase } from 'pg';
import { processorMsOf } from '#lib/postgres/lower-priority.ts';
import { slowMs } from '#lib/postgres/watch.ts';

/**
 * The processor time of the work on a connection, measured from the moment when it is slow: fast work costs nothing to
 * measure. Wall time would make light statements look heavy while processors are scarce; for servers elsewhere it is
 * the only figure.
 */
export class Effort {
  readonly #client: ClientBase;
  #from: { readonly processorMs: number | null; readonly at: number } | undefined;

  constructor(client: ClientBase) {
    this.#client = client;
  }

  /** To be called while the work is slow. @returns ms since the first call */
  follow(): number {
    const processorMs = processorMsOf(this.#client);
    const at = performance.now();
    this.#from ??= { processorMs, at };
    if (processorMs === null || this.#from.processorMs === null) return at - this.#from.at;
    return processorMs - this.#from.processorMs;
  }

  /** The approximate duration of finished work in ms; 0 when it was never slow. */
  total(): number {
    return this.#from === undefined ? 0 : slowMs + this.follow();
  }
}
