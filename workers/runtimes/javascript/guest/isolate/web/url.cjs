'use strict';
const outside = require('./outside.cjs');
const { attach, refill } = require('./url-search-params.cjs');

const define = (Class, name, accessors) =>
  Object.defineProperty(Class.prototype, name, { ...accessors, enumerable: true, configurable: true });

/**
 * The parts of an address are worked out by the other side, where a parser with all of Unicode's tables for host names
 * is there anyway. That costs 60 µs an address; a parser here would have to be loaded anew by every run that uses one.
 */
class URL {
  #parts;
  #params = undefined;

  constructor(url, base) {
    if (arguments.length === 0) throw new TypeError('The "url" argument must be specified');
    const input = String(url);
    this.#parts = parts(
      outside.ask('url', input.toWellFormed(), base === undefined ? null : String(base).toWellFormed()),
    );
    if (this.#parts === null) throw invalid(input, base);
  }

  static canParse(url, base) {
    return URL.parse(url, base) !== null;
  }

  static parse(url, base) {
    try {
      return new URL(url, base);
    } catch (error) {
      if (error.code === 'ERR_INVALID_URL') return null;
      throw error;
    }
  }

  static {
    for (const name of ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'hash']) {
      define(this, name, {
        get() {
          return this.#parts[name];
        },
        set(value) {
          this.#change(name, value);
        },
      });
    }
  }

  get href() {
    return this.#parts.href;
  }
  set href(value) {
    const text = String(value);
    const changed = parts(outside.ask('url', text.toWellFormed(), null));
    if (changed === null) throw invalid(text);
    this.#parts = changed;
    this.#updateParams();
  }
  get origin() {
    return this.#parts.origin;
  }
  get search() {
    return this.#parts.search;
  }
  set search(value) {
    this.#change('search', value);
    this.#updateParams();
  }
  get searchParams() {
    this.#params ??= attach(this.#parts.search, (query) => this.#change('search', query));
    return this.#params;
  }
  toString() {
    return this.#parts.href;
  }
  toJSON() {
    return this.#parts.href;
  }
  get [Symbol.toStringTag]() {
    return 'URL';
  }

  #change(name, value) {
    this.#parts = parts(outside.ask('url.set', this.#parts.href, name, String(value).toWellFormed())) ?? this.#parts;
  }

  #updateParams() {
    if (this.#params !== undefined) refill(this.#params, this.#parts.search);
  }
}

const parts = (answer) => (answer === null ? null : JSON.parse(answer));

function invalid(input, base) {
  const error = Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input });
  return base === undefined ? error : Object.assign(error, { base: String(base) });
}

module.exports = { URL };
