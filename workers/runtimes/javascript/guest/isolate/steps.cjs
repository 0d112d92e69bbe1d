'use strict';
const { describeError, toJson } = require('./handler.cjs');

/** While something outside of steps is under way, the run is checked again after so long. */
const pollMs = 5;

/**
 * Durable steps (`sdk.step`). The code of a run runs from the top each time that it is continued: steps with a result
 * answer from the record.
 * @param tools `call`; `isQuiet`, whether nothing else is under way; `later`, a timer of ours; `sleep` and `fail`,
 * which end the run
 */
function createSteps(tools) {
  const { call } = tools;
  const record = createRecord(call);
  const rest = new Rest(tools, record);

  const perform = async (name, work) => {
    const isRetried = await rest.during(async () => {
      await call('step.start', { name });
      const { sent, error } = await outcomeOf(work);
      const { retry } = await call('step.end', { name, ...sent });
      if (error === undefined) return { value: JSON.parse(sent.result) };
      if (retry !== true) throw error.thrown;
      return null;
    });
    return isRetried === null ? rest.sleeping() : isRetried.value;
  };
  const resume = async (name, kind, begin) => {
    rest.requireRunning();
    const known = await record.request(name);
    if (known !== undefined && known.kind !== kind) await record.requireUnchanged(name);
    if (known?.status === 'succeeded') return known.result;
    if (known?.status === 'failed') throw errorOf(known.error);
    if (known !== undefined && !known.due) return rest.sleeping();
    await rest.untilRequested();
    return begin();
  };
  const wait = (name, kind, args) =>
    resume(name, kind, async () => {
      await rest.register(call('step.wait', { name, kind, ...args }));
      return rest.sleeping();
    });

  const step = Object.freeze({
    run: async (name, work) => {
      if (typeof work !== 'function') throw new TypeError('step.run needs a name and a function');
      const own = record.nameFor(name, 'step.run');
      return resume(own, 'run', () => perform(own, work));
    },
    sleep: async (ms) => wait(record.nameFor('sleep'), 'sleep', { ms: Number(ms) }),
    sleepUntil: async (time) => wait(record.nameFor('sleep'), 'sleep', { until: new Date(time).getTime() }),
    waitForEvent: async (event, { filter, timeout } = {}) =>
      wait(record.nameFor(event, 'step.waitForEvent'), 'event', { event, filter, ms: timeout }),
    all: (promises) => Promise.all(promises),
  });
  return { step, finish: () => rest.finish() };
}

/** The recorded steps of the run, loaded by its first one. */
function createRecord(call) {
  const steps = new Map();
  const unrequested = new Set();
  const used = new Set();
  const numbers = new Map();
  let loading;
  let allRequested;
  const load = async () => {
    const found = await call('step.begin', {});
    for (const one of found.steps) {
      steps.set(one.name, one);
      unrequested.add(one.name);
    }
  };
  return {
    unrequested,
    onAllRequested: (listener) => {
      allRequested = listener;
    },
    /** The first use of a name keeps it; the others are numbered. */
    nameFor: (name, method = 'step') => {
      if (typeof name !== 'string' || name === '') throw new TypeError(`${method} needs a name`);
      let number = (numbers.get(name) ?? 0) + 1;
      const own = () => (number === 1 ? name : `${name}#${number}`);
      while (used.has(own())) number += 1;
      numbers.set(name, number);
      used.add(own());
      return own();
    },
    request: async (name) => {
      await (loading ??= load());
      if (unrequested.delete(name) && unrequested.size === 0) allRequested?.();
      return steps.get(name);
    },
    /** Fails the run when code has not requested what is recorded. */
    requireUnchanged: async (name = [...unrequested][0]) => {
      if (name !== undefined) await call('step.changed', { name });
    },
  };
}

/** Notices when nothing of the run can go on any more: then it sleeps, or its code is not what it was. */
class Rest {
  #tools;
  #record;
  #registering = new Set();
  #waiting = new Set();
  #held = [];
  #running = 0;
  #isOver = false;
  #isChecking = false;

  constructor(tools, record) {
    this.#tools = tools;
    this.#record = record;
    record.onAllRequested(() => {
      for (const go of this.#held.splice(0)) go();
    });
  }

  requireRunning() {
    if (this.#isOver) throw new Error('The handler has returned: there are no steps after it.');
  }

  /** A new step starts when all recorded ones were requested: changed code must not do what it did not do before. */
  async untilRequested() {
    if (this.#record.unrequested.size === 0) return;
    const released = new Promise((resolve) => this.#held.push(resolve));
    this.#checkLater();
    await released;
  }

  sleeping() {
    return new Promise((_resolve, reject) => {
      this.#waiting.add(reject);
      this.#checkLater();
    });
  }

  async register(call) {
    this.#registering.add(call);
    await call.finally(() => this.#registering.delete(call));
  }

  async during(work) {
    this.#running += 1;
    try {
      // A step that waits for an event must receive those that this work causes.
      await Promise.allSettled(this.#registering);
      return await work();
    } finally {
      this.#running -= 1;
      this.#checkLater();
    }
  }

  /** The handler has returned. */
  async finish() {
    await this.#record.requireUnchanged();
    this.#isOver = true;
  }

  #checkLater(delayMs = 0) {
    if (this.#isChecking || this.#isOver) return;
    this.#isChecking = true;
    this.#tools.later(() => {
      this.#isChecking = false;
      this.#check();
    }, delayMs);
  }

  #check() {
    const { call, isQuiet, sleep, fail } = this.#tools;
    if (this.#isOver || this.#running > 0 || this.#waiting.size + this.#held.length === 0) return;
    if (this.#registering.size > 0 || !isQuiet()) this.#checkLater(pollMs);
    else if (this.#record.unrequested.size > 0) this.#record.requireUnchanged().then(undefined, this.#end(fail));
    else call('step.suspend', {}).then(this.#end(sleep), (error) => this.#refuse(error));
  }

  #end(how) {
    return (value) => {
      this.#isOver = true;
      how(value);
    };
  }

  #refuse(error) {
    const refused = [...this.#waiting];
    this.#waiting.clear();
    for (const reject of refused) reject(error);
  }
}

/** The result of a step, or its failure, as it is sent and as it is thrown. */
async function outcomeOf(work) {
  try {
    return { sent: { result: toJson(await work()) } };
  } catch (thrown) {
    const [name, message, stack] = describeError(thrown);
    return { error: { thrown }, sent: { error: { name, message, stack } } };
  }
}

function errorOf({ name, message, stack }) {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });
  error.stack = stack === '' ? `${name}: ${message}` : stack;
  return error;
}

module.exports = { createSteps };
