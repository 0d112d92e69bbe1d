'use strict';
const { DOMException } = require('./dom-exception.cjs');

/** The dispatch state of an event; outside of the module it can only be read. */
let begin;
let finish;
let isStopped;

class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #target = null;
  #dispatching = false;
  #stopped = false;
  #stoppedAtOnce = false;
  #prevented = false;
  #passive = false;
  #timeStamp = Date.now();

  constructor(type, options) {
    if (arguments.length === 0) throw new TypeError('The "type" argument must be specified');
    this.#type = String(type);
    this.#bubbles = Boolean(options?.bubbles);
    this.#cancelable = Boolean(options?.cancelable);
    this.#composed = Boolean(options?.composed);
  }

  static {
    begin = (event, target) => {
      if (event.#dispatching) throw new DOMException('The event is already being dispatched', 'InvalidStateError');
      event.#dispatching = true;
      event.#target = target;
    };
    finish = (event) => {
      event.#dispatching = false;
      event.#stopped = false;
      event.#stoppedAtOnce = false;
      return !event.#prevented;
    };
    isStopped = (event, passive) => {
      event.#passive = passive;
      return event.#stoppedAtOnce;
    };
    for (const [name, value] of Object.entries({ NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 })) {
      for (const holder of [this, this.prototype]) Object.defineProperty(holder, name, { value, enumerable: true });
    }
  }

  get type() {
    return this.#type;
  }
  get bubbles() {
    return this.#bubbles;
  }
  get cancelable() {
    return this.#cancelable;
  }
  get composed() {
    return this.#composed;
  }
  get target() {
    return this.#target;
  }
  get srcElement() {
    return this.#target;
  }
  get currentTarget() {
    return this.#dispatching ? this.#target : null;
  }
  get eventPhase() {
    return this.#dispatching ? Event.AT_TARGET : Event.NONE;
  }
  get defaultPrevented() {
    return this.#prevented;
  }
  get returnValue() {
    return !this.#prevented;
  }
  get timeStamp() {
    return this.#timeStamp;
  }
  get isTrusted() {
    return false;
  }
  get cancelBubble() {
    return this.#stopped;
  }
  set cancelBubble(value) {
    if (value) this.#stopped = true;
  }
  composedPath() {
    return this.#dispatching ? [this.#target] : [];
  }
  stopPropagation() {
    this.#stopped = true;
  }
  stopImmediatePropagation() {
    this.#stopped = true;
    this.#stoppedAtOnce = true;
  }
  preventDefault() {
    if (this.#cancelable && !this.#passive) this.#prevented = true;
  }
  get [Symbol.toStringTag]() {
    return 'Event';
  }
}

class CustomEvent extends Event {
  #detail;

  constructor(type, options) {
    super(...arguments);
    this.#detail = options?.detail ?? null;
  }

  get detail() {
    return this.#detail;
  }
  get [Symbol.toStringTag]() {
    return 'CustomEvent';
  }
}

/** Targets have no parents here: an event is for the listeners of its target only. */
class EventTarget {
  #listeners = new Map();

  addEventListener(type, callback, options) {
    const { capture, once = false, passive = false, signal } = flatten(options);
    if (callback === null || callback === undefined || signal?.aborted === true) return;
    if (typeof callback !== 'function' && typeof callback !== 'object') {
      throw new TypeError('The "listener" argument must be an instance of EventListener');
    }
    const listeners = this.#of(type);
    if (listeners.some((other) => other.callback === callback && other.capture === capture)) return;
    const listener = { callback, capture, once: Boolean(once), passive: Boolean(passive), removed: false };
    listeners.push(listener);
    signal?.addEventListener('abort', () => this.#remove(type, listener), { once: true });
  }

  removeEventListener(type, callback, options) {
    const { capture } = flatten(options);
    const found = this.#of(type).find((other) => other.callback === callback && other.capture === capture);
    if (found !== undefined) this.#remove(type, found);
  }

  dispatchEvent(event) {
    if (!(event instanceof Event)) throw new TypeError('The "event" argument must be an instance of Event');
    begin(event, this);
    for (const listener of this.#of(event.type).slice()) {
      if (isStopped(event, listener.passive)) break;
      if (listener.removed) continue;
      if (listener.once) this.#remove(event.type, listener);
      this.#dispatchTo(listener.callback, event);
    }
    return finish(event);
  }

  /** An error of a listener ends the run, as it ends a process, but the other listeners run first. */
  #dispatchTo(callback, event) {
    try {
      if (typeof callback === 'function') callback.call(this, event);
      else callback.handleEvent(event);
    } catch (error) {
      void Promise.reject(error);
    }
  }

  #of(type) {
    const name = String(type);
    if (!this.#listeners.has(name)) this.#listeners.set(name, []);
    return this.#listeners.get(name);
  }

  #remove(type, listener) {
    const listeners = this.#of(type);
    listener.removed = true;
    if (listeners.includes(listener)) listeners.splice(listeners.indexOf(listener), 1);
  }

  get [Symbol.toStringTag]() {
    return 'EventTarget';
  }
}

function flatten(options) {
  if (typeof options !== 'object' || options === null) return { capture: Boolean(options) };
  return { ...options, once: options.once, capture: Boolean(options.capture) };
}

/** `target.onabort = callback`, for one type of event. */
function defineHandler(prototype, type) {
  const handlers = new WeakMap();
  Object.defineProperty(prototype, `on${type}`, {
    get() {
      return handlers.get(this)?.callback ?? null;
    },
    set(value) {
      const callback = typeof value === 'function' ? value : null;
      const handler = handlers.get(this);
      if (handler !== undefined) handler.callback = callback;
      else if (callback !== null) listen(this, callback);
    },
    enumerable: true,
    configurable: true,
  });
  const listen = (target, callback) => {
    const handler = { callback };
    handlers.set(target, handler);
    target.addEventListener(type, (event) => handler.callback?.call(target, event));
  };
}

module.exports = { CustomEvent, Event, EventTarget, defineHandler };
