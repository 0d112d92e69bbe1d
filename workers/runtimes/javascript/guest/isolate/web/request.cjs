'use strict';
const { AbortController, AbortSignal } = require('./abort.cjs');
const { Body, branch, contentOf, hasContent } = require('./body.cjs');
const { Headers } = require('./headers.cjs');
const { URL } = require('./url.cjs');

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const upperCased = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
const forbidden = new Set(['CONNECT', 'TRACE', 'TRACK']);
const choices = {
  cache: ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached'],
  credentials: ['same-origin', 'omit', 'include'],
  mode: ['cors', 'same-origin', 'no-cors'],
  redirect: ['follow', 'error', 'manual'],
};

class Request extends Body {
  #fields;

  constructor(input, init = {}) {
    if (arguments.length === 0) throw new TypeError('The "input" argument must be specified');
    const options = init ?? {};
    const from = input instanceof Request ? input : null;
    const method = methodOf(options.method ?? from?.method ?? 'GET');
    const headers = new Headers(options.headers ?? from?.headers);
    const url = from === null ? address(input) : from.url;
    super(content(options.body, from, { method, headers }));
    this.#fields = { url, method, headers, ...choicesOf(options, from) };
  }

  static {
    const names = ['url', 'method', 'headers', 'signal', 'keepalive', ...Object.keys(choices)];
    for (const name of [...names, 'integrity', 'referrer', 'referrerPolicy']) {
      const get = function get() {
        return this.#fields[name];
      };
      Object.defineProperty(this.prototype, name, { get, enumerable: true, configurable: true });
    }
  }

  get destination() {
    return '';
  }
  get duplex() {
    return 'half';
  }
  clone() {
    return new Request(this);
  }
  get [Symbol.toStringTag]() {
    return 'Request';
  }
}

function address(input) {
  const text = String(input);
  const url = URL.parse(text);
  if (url === null) throw new TypeError(`Failed to parse URL from ${text}`);
  if (url.username !== '' || url.password !== '') {
    throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${text}`);
  }
  return url.href;
}

function methodOf(value) {
  const text = String(value);
  const upper = text.toUpperCase();
  if (!token.test(text) || forbidden.has(upper)) throw new TypeError(`'${text}' is not a valid HTTP method.`);
  return upperCased.has(upper) ? upper : text;
}

/** The body of a new request: its own, else the same as the request that it is made from. */
function content(value, from, { method, headers }) {
  const isGiven = value !== undefined && value !== null;
  if (!isGiven && (from === null || !hasContent(from))) return {};
  if (method === 'GET' || method === 'HEAD') throw new TypeError('Request with GET/HEAD method cannot have body.');
  if (!isGiven) return branch(from);
  const [found, type] = contentOf(value);
  if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
  return found;
}

function choicesOf(options, from) {
  const of = (name, otherwise) => options[name] ?? from?.[name] ?? otherwise;
  return {
    ...Object.fromEntries(Object.keys(choices).map((name) => [name, choice(name, of(name, choices[name][0]))])),
    signal: signalOf(options.signal === undefined ? from?.signal : options.signal),
    keepalive: Boolean(of('keepalive', false)),
    integrity: String(of('integrity', '')),
    referrer: String(of('referrer', 'about:client')),
    referrerPolicy: String(of('referrerPolicy', '')),
  };
}

function signalOf(given) {
  if (given === undefined || given === null) return new AbortController().signal;
  if (!(given instanceof AbortSignal)) throw new TypeError('The "signal" option must be an AbortSignal');
  return AbortSignal.any([given]);
}

function choice(name, value) {
  if (!choices[name].includes(value)) throw new TypeError(`'${String(value)}' is not a valid value for ${name}`);
  return value;
}

module.exports = { Request };
