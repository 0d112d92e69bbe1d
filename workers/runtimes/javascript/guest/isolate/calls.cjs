'use strict';
/** The calls of this isolate to the world outside the sandbox; each call is a promise of the answer. */
function createCalls(send) {
  const waiting = new Map();
  const pass = createQueue();
  let last = 0;
  let open = 0;

  /** @param args a value; JSON takes it over */
  const call = (op, args) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(args, asSent);
      open += 1;
      // Where in user code the call was made: the answer comes on an empty stack.
      const trace = {};
      Error.captureStackTrace(trace, call);
      const go = (done) => {
        waiting.set(++last, { resolve, reject, trace, done });
        send(last, op, text);
      };
      if (isQueued(op, args)) pass(go);
      else go(() => undefined);
    });

  const answer = (number, ok, text) => {
    const call = waiting.get(number);
    if (call === undefined) return;
    waiting.delete(number);
    open -= 1;
    call.done();
    if (ok) call.resolve(JSON.parse(text));
    else call.reject(faultOf(JSON.parse(text), call.trace));
  };
  return { call, answer, isIdle: () => open === 0 };
}

/** Less than the 64 that may wait for an answer: there has to be room for what goes past the queue. */
const maxQueries = 32;

/**
 * Statements outside of transactions stand in line for one connection anyway. What is in a transaction goes past them:
 * they may be waiting for its locks. So do requests, which one another's cancelling may hang on.
 */
function isQueued(op, args) {
  return /^(?:asCaller\.)?db\.(?!begin$)/.test(op) && (args.tx === null || args.tx === undefined);
}

/** Lets through so many at a time, in the order in which they came. */
function createQueue() {
  const line = [];
  let next = 0;
  let under = 0;
  const done = () => {
    under -= 1;
    if (next < line.length) advance();
    if (next === line.length) next = line.length = 0;
  };
  const advance = () => {
    const go = line[next];
    line[next++] = undefined;
    under += 1;
    go(done);
  };
  return (go) => {
    line.push(go);
    if (under < maxQueries) advance();
  };
}

/** Values that JSON cannot express: bytes go as Postgres writes them, whole numbers beyond 2^53 as text. */
function asSent(key, value) {
  if (typeof value === 'bigint') return String(value);
  // Not `value`: a Buffer has a toJSON, which came first.
  const own = this[key];
  if (ArrayBuffer.isView(own)) return hexOf(new Uint8Array(own.buffer, own.byteOffset, own.byteLength));
  if (value instanceof ArrayBuffer) return hexOf(new Uint8Array(value));
  return value;
}

const hexDigits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hexOf(bytes) {
  let text = '\\x';
  for (let index = 0; index < bytes.length; index += 1) text += hexDigits[bytes[index]];
  return text;
}

function faultOf({ name, message, ...fields }, { stack }) {
  const error = Object.assign(new Error(message), fields);
  const frames = stack.slice(stack.indexOf('\n') + 1);
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });
  error.stack = `${name}: ${message}\n${frames}`;
  return error;
}

module.exports = { createCalls };
