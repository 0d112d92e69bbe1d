'use strict';
/** The structured clone algorithm for what the language itself has; transferring moves nothing, it copies. */
function structuredClone(value) {
  if (arguments.length === 0) throw new TypeError('structuredClone needs an argument');
  return clone(value, new Map());
}

function clone(value, seen) {
  if (typeof value === 'function' || typeof value === 'symbol') throw notCloneable(String(value));
  if (typeof value !== 'object' || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const copy = emptyCopy(value);
  seen.set(value, copy);
  fill(copy, value, seen);
  return copy;
}

const boxes = [Boolean, Number, String, BigInt];

function emptyCopy(value) {
  if (Array.isArray(value)) return Object.assign([], { length: value.length });
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof Error) return Object.create(errorPrototype(value));
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (ArrayBuffer.isView(value)) return copyView(value);
  if (boxes.some((Box) => value instanceof Box)) return Object(value.valueOf());
  for (const Kind of [Promise, WeakMap, WeakSet, WeakRef]) if (value instanceof Kind) throw notCloneable(Kind.name);
  return {};
}

function fill(copy, value, seen) {
  if (value instanceof Map) {
    for (const [key, item] of value) copy.set(clone(key, seen), clone(item, seen));
  } else if (value instanceof Set) {
    for (const item of value) copy.add(clone(item, seen));
  } else if (value instanceof Error) {
    for (const key of ['message', 'stack', 'cause']) {
      if (!Object.hasOwn(value, key)) continue;
      Object.defineProperty(copy, key, { value: clone(value[key], seen), writable: true, configurable: true });
    }
  } else if (Array.isArray(value) || Object.getPrototypeOf(copy) === Object.prototype) {
    for (const key of Object.keys(value)) {
      Object.defineProperty(copy, key, {
        value: clone(value[key], seen),
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
  }
}

const errors = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const errorPrototype = (error) => (Object.hasOwn(errors, error.name) ? errors[error.name] : Error).prototype;

function copyView(view) {
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  // "[object Uint8Array]": the one name of a view's kind that user code cannot change.
  const kind = Object.prototype.toString.call(view).slice(8, -1);
  return new globalThis[kind](bytes);
}

function notCloneable(what) {
  const error = new Error(`${what} could not be cloned.`);
  error.name = 'DataCloneError';
  error.code = 25;
  return error;
}

module.exports = { structuredClone };
