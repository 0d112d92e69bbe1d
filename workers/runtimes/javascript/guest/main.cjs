'use strict';
/**
 * Runs inside the sandbox: takes one function after another from the host (frames on fd 3) and runs each in an
 * isolate. Arguments: the paths of isolated-vm's addon and of the script that surrounds user code. Nothing of the
 * user's runs in this file's own engine; isolates run on other threads, so that this one can always pass on log lines
 * and timers.
 */
const { readFileSync } = require('node:fs');
const { connect } = require('./connection.cjs');
const { FunctionStore } = require('./functions.cjs');
const { answerQuestion } = require('./questions.cjs');
const { Run } = require('./run.cjs');

const [addon, script] = process.argv.slice(2);
const { ivm } = require(addon);

const host = connect(3, onMessage);
const store = new FunctionStore(ivm, readFileSync(script, 'latin1'), (message) => host.send(message));
/** The code that came last. */
let brought = null;
/** The run under way. */
let current = null;

/**
 * The events that an isolate may report of its run. One way in for all: each costs every run the time to hand it over.
 */
const events = new Set(['log', 'schedule', 'cancel', 'call', 'finish']);

/** Contexts of runs that are over may still tell something: their run is no longer the current one. */
function notify(id, what, ...args) {
  if (current !== null && current.id === id && events.has(what)) current[what](...args);
}

const hooks = {
  notify: new ivm.Callback(notify, { ignored: true }),
  ask: new ivm.Callback(answerQuestion, { sync: true }),
};

function onMessage(message) {
  if (message.type === 'code') brought = message;
  else if (message.type === 'run') begin(message);
  else if (current !== null && current.id === message.run) current.answer(message);
}

function begin(message) {
  const { run: id, function: name, memoryMib, ahead } = message;
  const envText = JSON.stringify(message.env);
  const code = brought?.function === name ? brought.code : null;
  brought = null;
  const kept = store.get(name, envText);
  if (kept === undefined && code === null) throw new Error(`asked for ${name}, which is not here`);
  try {
    const loaded = kept ?? store.load(name, code, memoryMib);
    if (message.isTrial) return answerTrial(id, store.tryAhead(name, loaded, envText));
    current = new Run({
      id,
      loaded,
      hooks,
      send: host.send,
      settle: () => settle(name, loaded, ahead ? envText : null),
    });
    current.start(message);
  } catch (error) {
    // A text that does not compile, or an isolate that is beyond use.
    current = null;
    store.discard(name);
    host.send({ type: 'result', run: id, status: 'error', result: null, error: plain(error), cpuMs: 0, memoryMib: 0 });
  }
}

/** @param fault why the module cannot be evaluated ahead of its runs; null: it was */
const answerTrial = (id, fault) => {
  const result = JSON.stringify({ fault });
  host.send({ type: 'result', run: id, status: 'success', result, error: null, cpuMs: 0, memoryMib: 0 });
};

const plain = ({ name, message, stack }) => ({ name: String(name), message: String(message), stack: String(stack) });

function settle(name, loaded, envText) {
  current = null;
  const makeReady = store.settle(name, loaded, envText);
  setImmediate(() => {
    if (current === null) makeReady();
  });
}

store.warm();
host.send({ type: 'ready' });
