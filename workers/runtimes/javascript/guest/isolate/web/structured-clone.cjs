'use strict';
const { DOMException } = require('./dom-exception.cjs');

/** The structured clone algorithm for what the language itself has. What is transferred is copied and then emptied. */
function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError('structuredClone needs an argument');
  const transferred = [...(options?.transfer ?? [])];
  for (const item of transferred)
    if (!(item instanceof ArrayBuffer)) throw notCloneable('A transferred value that is no ArrayBuffer');
  const copy = clone(value, new Map());
  for (const buffer of transferred) buffer.transfer();
  return copy;
}

function clone(value, seen) {
  if (typeof value === 'function' || typeof value === 'symbol') throw notCloneable(String(value));
  if (typeof value !== 'object' || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const copy = emptyCopy(value, seen);
  seen.set(value, copy);
  fill(copy, value, seen);
  return copy;
}

const boxes = [Boolean, Number, String, BigInt];

function emptyCopy(value, seen) {
  if (Array.isArray(value)) return Object.assign([], { length: value.length });
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof Error) return Object.create(errorPrototype(value));
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (ArrayBuffer.isView(value)) return copyView(value, seen);
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

/** Views on one buffer are views on one buffer again. */
function copyView(view, seen) {
  const buffer = clone(view.buffer, seen);
  // "[object Uint8Array]": the one name of a view's kind that user code cannot change.
  const kind = Object.prototype.toString.call(view).slice(8, -1);
  return new globalThis[kind](buffer, view.byteOffset, view.length ?? view.byteLength);
}

const notCloneable = (what) => new DOMException(`${what} could not be cloned.`, 'DataCloneError');

module.exports = { structuredClone };
