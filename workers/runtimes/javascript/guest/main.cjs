'use strict';
/**
 * Runs inside the sandbox: takes one function after another from the host (frames on fd 3) and runs each in an
 * isolate. Arguments: the path of isolated-vm's addon. Nothing of the user's runs in this file's own engine; isolates
 * run on other threads, so that this one can always pass on log lines and timers.
 */
const { connect } = require('./connection.cjs');
const { FunctionStore } = require('./functions.cjs');
const { Run } = require('./run.cjs');

const { ivm } = require(process.argv[2]);

const host = connect(3, onMessage);
const store = new FunctionStore(ivm, (name) => host.send({ type: 'dropped', function: name }));
/** The run under way. */
let current = null;

/** Asked by the isolate. Contexts of runs that are over may still call: their run is no longer the current one. */
const of = (act) =>
  new ivm.Callback((id, ...args) => (current !== null && current.id === id ? act(current, ...args) : undefined), {
    ignored: true,
  });
const hooks = {
  log: of((run, level, text) => run.log(level, text)),
  schedule: of((run, timer, delayMs) => run.schedule(timer, delayMs)),
  cancel: of((run, timer) => run.cancel(timer)),
  finish: of((run, ...verdict) => run.finish(verdict)),
};

function onMessage(message) {
  const { run: id, function: name, code, memoryMib } = message;
  try {
    const loaded = store.get(name) ?? store.load(name, code, memoryMib);
    current = new Run({ id, loaded, hooks, send: host.send, done: () => afterRun(loaded) });
    current.start(message);
  } catch (error) {
    // A text that does not compile: nothing of it has run.
    const { name: errorName, message: text, stack } = error;
    const fault = { name: String(errorName), message: String(text), stack: String(stack) };
    host.send({ type: 'result', run: id, status: 'error', result: null, error: fault, cpuMs: 0, memoryMib: 0 });
  }
}

function afterRun(loaded) {
  current = null;
  // The next run's context, while the host is busy with this one's result.
  setImmediate(() => {
    if (current === null) loaded.prepare();
  });
}

store.warm();
host.send({ type: 'ready' });
