'use strict';
/** What this isolate asks of the world outside the sandbox; each call is a promise of the answer. */
function createCalls(send) {
  const waiting = new Map();
  let last = 0;

  /** @param args a value; JSON takes it over */
  const call = (op, args) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(args, asSent);
      // Where in user code the call was made: the answer comes on an empty stack.
      const trace = {};
      Error.captureStackTrace(trace, call);
      waiting.set(++last, { resolve, reject, trace });
      send(last, op, text);
    });

  const answer = (number, ok, text) => {
    const call = waiting.get(number);
    if (call === undefined) return;
    waiting.delete(number);
    if (ok) call.resolve(JSON.parse(text));
    else call.reject(faultOf(JSON.parse(text), call.trace));
  };
  return { call, answer };
}

/** What JSON has no word for: bytes go as Postgres writes them, whole numbers beyond 2^53 as text. */
function asSent(_key, value) {
  if (typeof value === 'bigint') return String(value);
  if (ArrayBuffer.isView(value)) return hexOf(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
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
