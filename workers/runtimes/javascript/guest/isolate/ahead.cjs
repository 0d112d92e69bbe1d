'use strict';
/**
 * Evaluates the user's module once, for the snapshot of which the contexts of runs are made. There is no run meanwhile:
 * whatever a run has of its own, or the engine cannot store, is noticed when it is touched, and then there is no
 * snapshot. So a module never sees less than in a run.
 */
const { describeError, loadModule } = require('./handler.cjs');
const { nameFiles } = require('./places.cjs');
const { connectWeb } = require('./web/globals.cjs');

/** The engine ends the process when it stores an object of Intl. */
const missing = [
  'Intl',
  'console',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
].concat(['clearImmediate', 'queueMicrotask', 'performance']);

const { defineProperty, getOwnPropertyDescriptor } = Object;
const originals = new Map();
const guards = new Map();
let wrapper = null;
let own = null;
let touched = null;

const touch = (name) => () => {
  touched ??= name;
  throw new Error(reasonOf(name));
};

/** For the author of the module, who reads it when it is deployed. */
const reasonOf = (name) =>
  name === 'Intl' ? 'Intl cannot be stored' : `${name} at the top level is there in runs only`;

function evaluate() {
  try {
    return loadModule(wrapper);
  } catch (error) {
    throw touched === null ? new Error(`the module throws: ${describeError(error).slice(0, 2).join(': ')}`) : error;
  }
}

const take = (given) => {
  wrapper = given;
};

function load(envText, places) {
  if (places !== '') nameFiles(places);
  for (const name of missing) {
    originals.set(name, getOwnPropertyDescriptor(globalThis, name));
    guards.set(name, touch(name));
    defineProperty(globalThis, name, { get: guards.get(name), set: guards.get(name), configurable: true });
  }
  const process = Object.freeze({ env: Object.freeze(JSON.parse(envText)) });
  defineProperty(globalThis, 'process', { value: process, writable: true, configurable: true });
  connectWeb({ ask: touch('a call'), call: touch('a call') });
  const { module, loading } = evaluate();
  if (loading !== null) touched ??= 'await';
  own = module;
}

/** When everything that the module has begun is done. */
function requireWhole() {
  const replaced = missing.find((name) => getOwnPropertyDescriptor(globalThis, name)?.get !== guards.get(name));
  touched ??= replaced ?? null;
  if (touched !== null) throw new Error(reasonOf(touched));
}

/** The module that is here already, in the form of `loadModule`; null when there is none. */
const begin = () => own && { module: own, loading: null };

/** Before a run puts its own globals in their places. */
function restore() {
  if (own === null) return;
  for (const name of missing) {
    const original = originals.get(name);
    if (original === undefined) delete globalThis[name];
    else defineProperty(globalThis, name, original);
  }
}

module.exports = { begin, load, requireWhole, restore, take };
