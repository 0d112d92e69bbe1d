'use strict';
/**
 * Runs inside the isolate, in the same context as the user's code, before and around it. What user code can reach is
 * its own to break; hence nothing here is trusted by anyone outside, and nothing here is worth stealing.
 */
const { createCalls } = require('./calls.cjs');
const { createConsole } = require('./console.cjs');
const { causesOf, describeError, findHandler, loadModule, toJson } = require('./handler.cjs');
const { createSdk } = require('./sdk.cjs');
const { createTimers } = require('./timers.cjs');
const { connectWeb, defineWeb } = require('./web/globals.cjs');

const maxResultLength = 1024 * 1024;

/** The calls from outside after the start: `fire` a timer that is due, `answer` a call. */
const later = {};

/** The one way in: `start` once, then what happens meanwhile. */
function enter(command, ...args) {
  if (command === 'start') start(...args);
  else later[command](...args);
}

// oxlint-disable-next-line max-params -- one crossing into the isolate costs 50 µs, whatever it carries
function start(id, outside, ask, wrapper, entryPoint, payload, envText, projectId, callerText) {
  const notify = (what, ...args) => outside(id, what, ...args);
  let over = false;
  const end = (status, result, error) => {
    if (over) return;
    over = true;
    const [name, message, stack] = status === 'error' ? describeError(error) : [];
    notify('finish', status, result, name, message, status === 'error' ? stack + causesOf(error) : stack);
  };
  const fail = (error) => end('error', undefined, error);

  const env = Object.freeze(JSON.parse(envText));
  const timers = createTimers({
    schedule: (timer, delayMs) => notify('schedule', timer, delayMs),
    cancel: (timer) => notify('cancel', timer),
    isOver: () => over,
    fail,
  });
  later.fire = timers.fire;
  const calls = createCalls((number, op, args) => notify('call', number, op, args));
  later.answer = calls.answer;
  connectWeb({ ask, call: calls.call });
  const console = createConsole((level, text) => notify('log', level, text));
  install({ ...timers.globals, console, process: Object.freeze({ env }) });

  const main = async () => {
    const { module, loading } = loadModule(wrapper);
    if (loading !== null) await loading;
    const handler = findHandler(module.exports, entryPoint);
    const sdk = createSdk({ call: calls.call, env, projectId, caller: JSON.parse(callerText) });
    const json = toJson(await handler(JSON.parse(payload), sdk));
    // The host counts bytes; a text that has more characters than that need not cross over.
    if (json.length > maxResultLength) end('result_too_large');
    else end('success', json);
  };
  main().then(undefined, fail);
}

function install(globals) {
  for (const name of Object.keys(globals)) {
    const value = globals[name];
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

defineWeb();
install({
  global: globalThis,
  self: globalThis,
  navigator: Object.freeze({ userAgent: 'plinth-functions' }),
  // Its callbacks would run in the middle of a later run; never calling them is what the language allows.
  FinalizationRegistry: class FinalizationRegistry {
    register() {}
    unregister() {
      return false;
    }
  },
});

module.exports = { enter };
