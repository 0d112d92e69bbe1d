'use strict';
/** The names of each group in `loaders.cjs`: loading one of them loads all. */
const groups = {
  domException: ['DOMException'],
  events: ['Event', 'CustomEvent', 'EventTarget'],
  abort: ['AbortController', 'AbortSignal'],
  base64: ['atob', 'btoa'],
  blob: ['Blob', 'File'],
  formData: ['FormData'],
  headers: ['Headers'],
  urlSearchParams: ['URLSearchParams'],
  fetch: ['URL', 'Request', 'Response', 'fetch'],
  crypto: ['crypto', 'Crypto', 'CryptoKey', 'SubtleCrypto'],
  encoding: ['TextDecoder', 'TextEncoder'],
  buffer: ['Buffer'],
  structuredClone: ['structuredClone'],
  performance: ['performance'],
  streams: [
    'ByteLengthQueuingStrategy',
    'CountQueuingStrategy',
    'ReadableByteStreamController',
    'ReadableStream',
    'ReadableStreamBYOBReader',
    'ReadableStreamBYOBRequest',
    'ReadableStreamDefaultController',
    'ReadableStreamDefaultReader',
    'TextDecoderStream',
    'TextEncoderStream',
    'TransformStream',
    'TransformStreamDefaultController',
    'WritableStream',
    'WritableStreamDefaultController',
    'WritableStreamDefaultWriter',
  ],
};

/** The ways out of the isolate, see `outside.cjs`; there are none before the run begins. */
const outside = {};

/** While a library loads it looks for what the platform has of its own: nothing. */
let loading = 0;

/**
 * Defines the web's globals. Every run has a context of its own and few runs need any of them, so each is an accessor
 * that loads its module when it is first touched: 20 µs for them all, where loading takes milliseconds.
 */
function defineWeb() {
  for (const group of Object.keys(groups)) for (const name of groups[group]) defineLazily(name, group);
}

const defineLazily = (name, group) =>
  Object.defineProperty(globalThis, name, {
    get: () => (loading > 0 ? undefined : load(group)[name]),
    set(value) {
      define(name, value);
    },
    configurable: true,
    enumerable: false,
  });

/** Puts the values in the place of their accessors, those that user code has not replaced. */
function load(group) {
  isLoaded = true;
  loading += 1;
  try {
    const values = require('./loaders.cjs').loaderOf(group, outside)();
    for (const name of groups[group]) settle(name, values[name]);
    return values;
  } finally {
    loading -= 1;
  }
}

/** Our own side of the web's classes, under a name of `loaders.cjs` that no global has. */
function webPart(group) {
  isLoaded = true;
  loading += 1;
  try {
    return require('./loaders.cjs').loaderOf(group, outside)();
  } finally {
    loading -= 1;
  }
}

function settle(name, value) {
  // The bundler renames a class that is called like a global.
  if (typeof value === 'function') Object.defineProperty(value, 'name', { value: name, configurable: true });
  if (Object.getOwnPropertyDescriptor(globalThis, name)?.get !== undefined) define(name, value);
}

const define = (name, value) =>
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

let isLoaded = false;

function connectWeb(ways) {
  Object.assign(outside, ways);
  // A part that is in a snapshot has the ways of the time when that was made.
  if (isLoaded) require('./loaders.cjs').loaderOf('domException', outside);
}

module.exports = { connectWeb, defineWeb, webPart };
