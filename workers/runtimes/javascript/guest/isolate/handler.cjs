'use strict';
const { inspect } = require('./inspect.cjs');

const maxTextLength = 8192;
const stringify = JSON.stringify;

function missingModule(name) {
  const error = new Error(`Cannot find module '${name}': only what is bundled into the function's code is there`);
  error.code = 'MODULE_NOT_FOUND';
  throw error;
}

/**
 * Calls the user's text as a CommonJS module. One with top-level await was compiled to a text that returns a promise:
 * then `loading` is it, and the exports are there when it is fulfilled.
 */
function loadModule(wrapper) {
  const module = { exports: {} };
  const returned = wrapper.call(module.exports, module.exports, missingModule, module);
  return { module, loading: returned instanceof Promise ? returned : null };
}

/**
 * `exports.handler`, `export function handler`, `module.exports = function`, `export default function` or an object of
 * them.
 */
function findHandler(exported, entryPoint) {
  const fallback = exported?.default;
  const candidates = [exported?.[entryPoint], fallback?.[entryPoint]];
  const isMain = (candidate) => entryPoint === 'handler' || candidate?.name === entryPoint;
  for (const candidate of [exported, fallback]) if (isMain(candidate)) candidates.push(candidate);
  const handler = candidates.find((candidate) => typeof candidate === 'function');
  if (handler === undefined && entryPoint === 'handler') {
    // As Workers have it: "export default { fetch }".
    const owner = [fallback, exported].find((candidate) => typeof candidate?.fetch === 'function');
    if (owner !== undefined) return { isFetch: true, call: (...args) => owner.fetch(...args) };
  }
  if (handler === undefined) throw new TypeError(`The code exports no function named "${entryPoint}"`);
  return handler;
}

/** JSON text of a result; `undefined` and what JSON has no word for become null. */
function toJson(value) {
  try {
    return stringify(value) ?? 'null';
  } catch (error) {
    const [, message] = describeError(error);
    throw new TypeError(`The result cannot be turned into JSON: ${message}`, { cause: error });
  }
}

/** Name, message and stack of anything that can be thrown: strings, whatever its getters do. */
function describeError(thrown) {
  const isObject = (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function';
  if (!isObject) return ['Error', cut(inspect(thrown)), ''];
  const read = (key, otherwise) => {
    try {
      const value = thrown[key];
      return cut(value === undefined ? otherwise : String(value));
    } catch {
      return otherwise;
    }
  };
  return [read('name', 'Error'), read('message', inspect(thrown)), read('stack', '')];
}

const maxCauses = 5;

/** Returns the cause of an error, and the causes of that; empty when there is none. */
function causesOf(thrown) {
  let text = '';
  const seen = new Set([thrown]);
  for (let depth = 0, error = thrown; depth < maxCauses; depth += 1) {
    try {
      error = error?.cause;
    } catch {
      break;
    }
    if (error === undefined || error === null || seen.has(error)) break;
    seen.add(error);
    const [name, message, stack] = describeError(error);
    text += `\n[cause]: ${stack === '' ? `${name}: ${message}` : stack}`;
  }
  return cut(text);
}

const cut = (text) => text.slice(0, maxTextLength);

module.exports = { causesOf, describeError, findHandler, loadModule, toJson };
