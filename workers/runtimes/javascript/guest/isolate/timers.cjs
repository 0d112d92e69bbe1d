'use strict';
const maxDelayMs = 2 ** 31 - 1;
/** Tells the other side: as soon as what is waiting there is done. */
const immediately = -1;

/** Timers of one run; the clock is outside the isolate. What a callback throws ends the run, as it ends a process. */
function createTimers({ schedule, cancel, isOver, fail }) {
  const waiting = new Map();
  let last = 0;

  const add = (callback, delayMs, { args = [], repeat = false, isOurs = false }) => {
    if (typeof callback !== 'function') throw new TypeError('The "callback" argument must be of type function');
    const timer = new Timer(++last);
    waiting.set(last, { callback, delayMs, args, repeat, isOurs });
    schedule(last, delayMs);
    return timer;
  };
  const remove = (timer) => {
    const id = timer instanceof Timer ? timer.id : Number(timer);
    if (waiting.delete(id)) cancel(id);
  };
  const guarded = (callback, args) => {
    try {
      callback(...args);
    } catch (error) {
      fail(error);
    }
  };

  const fire = (id) => {
    const timer = waiting.get(id);
    if (timer === undefined || isOver()) return;
    if (!timer.repeat) waiting.delete(id);
    guarded(timer.callback, timer.args);
    if (timer.repeat && waiting.has(id) && !isOver()) schedule(id, timer.delayMs);
  };

  const globals = {
    setTimeout: (callback, delayMs, ...args) => add(callback, delay(delayMs), { args, repeat: false }),
    setInterval: (callback, delayMs, ...args) => add(callback, delay(delayMs), { args, repeat: true }),
    setImmediate: (callback, ...args) => add(callback, immediately, { args, repeat: false }),
    clearTimeout: remove,
    clearInterval: remove,
    clearImmediate: remove,
    queueMicrotask: (task) => {
      if (typeof task !== 'function') throw new TypeError('The "callback" argument must be of type function');
      void Promise.resolve().then(() => guarded(task, []));
    },
  };
  /** Whether user code waits for a timer that ends. */
  const isIdle = () => waiting.values().every(({ repeat, isOurs }) => repeat || isOurs);
  const later = (callback, delayMs) => add(callback, delayMs === 0 ? immediately : delayMs, { isOurs: true });
  return { globals, fire, isIdle, later };
}

/** As Node's: between 1 ms and 24.8 days, anything else counts as 1 ms. */
function delay(value) {
  const delayMs = Number(value);
  return delayMs >= 1 && delayMs <= maxDelayMs ? Math.trunc(delayMs) : 1;
}

/** Node's methods and the web's number in one: libraries use either. */
class Timer {
  constructor(id) {
    this.id = id;
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  hasRef() {
    return true;
  }
  [Symbol.toPrimitive]() {
    return this.id;
  }
}

module.exports = { createTimers };
