'use strict';
/**
 * Runs inside the isolate, in the same context as the user's code, before and around it. What user code can reach is
 * its own to break; hence nothing here is trusted by anyone outside, and nothing here is worth stealing.
 */
const ahead = require('./ahead.cjs');
const { conclude, createBackground } = require('./background.cjs');
const { createCalls } = require('./calls.cjs');
const { createLog } = require('./console.cjs');
const { causesOf, describeError, findHandler, loadModule, toJson } = require('./handler.cjs');
const { createSdk } = require('./sdk.cjs');
const { nameFiles } = require('./places.cjs');
const { createSteps } = require('./steps.cjs');
const { createTimers } = require('./timers.cjs');
const { connectWeb, defineWeb, webPart } = require('./web/globals.cjs');

/** The calls from outside after the start: `fire` a timer that is due, `answer` a call. */
const later = {};

/** The one way in: `start` once, then what happens meanwhile; for a snapshot, `take`, `load` and `store`. */
function enter(command, ...args) {
  if (command === 'start') start(...args);
  else if (command === 'take') ahead.take(...args);
  else if (command === 'load') ahead.load(...args);
  else if (command === 'store') ahead.requireWhole();
  else later[command](...args);
}

// oxlint-disable-next-line max-params -- one crossing into the isolate costs 50 µs, whatever it carries
function start(
  id,
  outside,
  ask,
  wrapper,
  entryPoint,
  payloadText,
  envText,
  projectId,
  callerText,
  requestText,
  places,
  attempt,
) {
  const notify = (what, ...args) => outside(id, what, ...args);
  let over = false;
  const end = (status, result, error, response) => {
    if (over) return;
    over = true;
    const [name, message, stack] = status === 'error' ? describeError(error) : [];
    notify('finish', status, result, name, message, status === 'error' ? stack + causesOf(error) : stack, response);
  };
  const fail = (error) => end('error', undefined, error);

  if (places !== '') nameFiles(places);
  const env = Object.freeze(JSON.parse(envText));
  const timers = createTimers({
    schedule: (timer, delayMs) => notify('schedule', timer, delayMs),
    cancel: (timer) => notify('cancel', timer),
    isOver: () => over,
    fail,
  });
  later.fire = timers.fire;
  const calls = createCalls((number, op, args) => notify('call', number, op, args));
  const { call } = calls;
  later.answer = calls.answer;
  ahead.restore();
  connectWeb({ ask, call });
  const { console, log } = createLog((level, text, fields) => notify('log', level, text, fields));
  install({ ...timers.globals, console, process: Object.freeze({ env }) });

  const steps = stepsWith({ calls, timers, end, fail });
  const background = createBackground((error) => console.error(error));

  const main = async () => {
    const { module, loading } = ahead.begin() ?? loadModule(wrapper);
    if (loading !== null) await loading;
    const handler = findHandler(module.exports, entryPoint);
    const { request, payload } = incoming(requestText, payloadText, call);
    const caller = JSON.parse(callerText);
    const { step } = steps;
    const sdk = createSdk({ call, log, env, projectId, caller, request, attempt, step, waitUntil: background.add });
    const value = await (handler.isFetch
      ? webPart('incoming').fetchBy(handler.call, payload, sdk)
      : handler(payload, sdk));
    await steps.finish();
    return isResponse(value) ? webPart('outgoing').answerWith(value, call) : { text: toJson(value) };
  };
  conclude(main(), { background, call, end, fail });
}

const stepsWith = ({ calls, timers, end, fail }) =>
  createSteps({
    call: calls.call,
    isQuiet: () => calls.isIdle() && timers.isIdle(),
    later: timers.later,
    sleep: () => end('success', 'null'),
    fail,
  });

/** By its tag: the class is loaded only when user code has touched it. */
const isResponse = (value) =>
  typeof value === 'object' &&
  value !== null &&
  value[Symbol.toStringTag] === 'Response' &&
  webPart('outgoing').isOurs(value);

const formType = /^\s*(?:application\/x-www-form-urlencoded|multipart\/form-data)\s*(?:;|$)/i;

/** The request of the run, null where there is none, and the payload: of a form its fields. */
function incoming(requestText, payloadText, call) {
  if (requestText === 'null') return { request: null, payload: JSON.parse(payloadText) };
  const given = JSON.parse(requestText);
  let made;
  // Most handlers never look at it.
  const request = () => (made ??= webPart('incoming').requestOf(given, payloadText, call));
  const isForm = given.kind === 'bytes' && formType.test(given.headers['content-type'] ?? '');
  return { request, payload: isForm ? webPart('incoming').fieldsOf(request()) : JSON.parse(payloadText) };
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
