'use strict';
const { DOMException } = require('./dom-exception.cjs');
const { Event, EventTarget, defineHandler } = require('./events.cjs');

const { setTimeout } = globalThis;
const timedOut = () => new DOMException('The operation was aborted due to timeout', 'TimeoutError');
const ours = Symbol('made here');

let abortSignal;
let onAbort;

class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;
  /** The abort steps of our own modules, which run before any listener. */
  #algorithms = new Set();

  constructor(key) {
    if (key !== ours) throw new TypeError('Illegal constructor');
    super();
  }

  static {
    abortSignal = (signal, reason = new DOMException('This operation was aborted', 'AbortError')) => {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason;
      for (const algorithm of signal.#algorithms) algorithm(reason);
      signal.#algorithms.clear();
      signal.dispatchEvent(new Event('abort'));
    };
    onAbort = (signal, algorithm) => {
      signal.#algorithms.add(algorithm);
      return () => void signal.#algorithms.delete(algorithm);
    };
  }

  static abort(reason) {
    const signal = new AbortSignal(ours);
    abortSignal(signal, reason);
    return signal;
  }

  static timeout(delayMs) {
    const delay = Number(delayMs);
    if (!(delay >= 0 && delay <= Number.MAX_SAFE_INTEGER)) throw new RangeError('The "delay" argument is out of range');
    const signal = new AbortSignal(ours);
    setTimeout(() => abortSignal(signal, timedOut()), delay);
    return signal;
  }

  static any(signals) {
    const sources = [...signals];
    if (!sources.every((source) => source instanceof AbortSignal)) {
      throw new TypeError('The "signals" argument must be an iterable of AbortSignal');
    }
    const signal = new AbortSignal(ours);
    const first = sources.find((source) => source.aborted);
    if (first !== undefined) abortSignal(signal, first.reason);
    else for (const source of sources) onAbort(source, (reason) => abortSignal(signal, reason));
    return signal;
  }

  get aborted() {
    return this.#aborted;
  }
  get reason() {
    return this.#reason;
  }
  throwIfAborted() {
    // oxlint-disable-next-line typescript/only-throw-error -- whoever aborts chooses what is thrown
    if (this.#aborted) throw this.#reason;
  }
  get [Symbol.toStringTag]() {
    return 'AbortSignal';
  }
}

defineHandler(AbortSignal.prototype, 'abort');

class AbortController {
  #signal = new AbortSignal(ours);

  get signal() {
    return this.#signal;
  }
  abort(reason) {
    abortSignal(this.#signal, reason);
  }
  get [Symbol.toStringTag]() {
    return 'AbortController';
  }
}

/** @returns a function that forgets the algorithm */
module.exports = { AbortController, AbortSignal, onAbort };
