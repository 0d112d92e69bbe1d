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
  call: of((run, call, op, args) => run.call(call, op, args)),
  finish: of((run, ...verdict) => run.finish(verdict)),
};

function onMessage(message) {
  if (message.type === 'run') begin(message);
  else if (current !== null && current.id === message.run) current.answer(message);
}

function begin(message) {
  const { run: id, function: name, code, memoryMib } = message;
  const kept = store.get(name);
  if (kept === undefined && code === null) throw new Error(`asked for ${name}, which is not here`);
  try {
    const loaded = kept ?? store.load(name, code, memoryMib);
    current = new Run({ id, loaded, hooks, send: host.send, settle: () => settle(name, loaded) });
    current.start(message);
  } catch (error) {
    // A text that does not compile, or an isolate that is beyond use.
    current = null;
    store.discard(name);
    host.send({ type: 'result', run: id, status: 'error', result: null, error: plain(error), cpuMs: 0, memoryMib: 0 });
  }
}

const plain = ({ name, message, stack }) => ({ name: String(name), message: String(message), stack: String(stack) });

function settle(name, loaded) {
  current = null;
  const makeReady = store.settle(name, loaded);
  setImmediate(() => {
    if (current === null) makeReady();
  });
}

store.warm();
host.send({ type: 'ready' });
