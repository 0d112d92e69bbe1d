'use strict';
const { walkByEntries } = require('./iterable.cjs');
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const padding = /^[\t\n\r ]+|[\t\n\r ]+$/g;

let freeze;

class Headers {
  /** Name in lower case → values in their order. */
  #lists = new Map();
  #frozen = false;

  constructor(init) {
    if (init === undefined) return;
    if (init === null || (typeof init !== 'object' && typeof init !== 'function')) {
      throw new TypeError('Headers are made of a record or a sequence of pairs');
    }
    for (const pair of typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init)) {
      const [name, value, ...more] = pair;
      if (value === undefined && more.length === 0 && [...pair].length !== 2) throw notPair();
      if (more.length > 0) throw notPair();
      this.append(name, value);
    }
  }

  static {
    freeze = (headers) => {
      headers.#frozen = true;
      return headers;
    };
  }

  append(name, value) {
    const [key, text] = this.#write(name, value);
    const list = this.#lists.get(key);
    if (list === undefined) this.#lists.set(key, [text]);
    else list.push(text);
  }
  set(name, value) {
    const [key, text] = this.#write(name, value);
    this.#lists.set(key, [text]);
  }
  delete(name) {
    const [key] = this.#write(name, '');
    this.#lists.delete(key);
  }
  get(name) {
    return this.#lists.get(nameOf(name))?.join(', ') ?? null;
  }
  has(name) {
    return this.#lists.has(nameOf(name));
  }
  getSetCookie() {
    return [...(this.#lists.get('set-cookie') ?? [])];
  }

  *entries() {
    for (const name of [...this.#lists.keys()].sort((a, b) => Number(a > b) - Number(a < b))) {
      const list = this.#lists.get(name) ?? [];
      if (name === 'set-cookie') for (const value of list) yield [name, value];
      else yield [name, list.join(', ')];
    }
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  forEach(callback, self) {
    if (typeof callback !== 'function') throw new TypeError('The "callback" argument must be of type function');
    for (const [name, value] of this.entries()) callback.call(self, value, name, this);
  }
  get [Symbol.toStringTag]() {
    return 'Headers';
  }

  #write(name, value) {
    const written = [nameOf(name), valueOf(value)];
    if (this.#frozen) throw new TypeError('immutable');
    return written;
  }
}

walkByEntries(Headers);

const notPair = () => new TypeError('Headers are made of pairs of a name and a value');

function nameOf(name) {
  const text = String(name);
  if (!token.test(text)) throw new TypeError(`"${text}" is an invalid header name.`);
  return text.toLowerCase();
}

function valueOf(value) {
  const text = String(value).replaceAll(padding, '');
  // oxlint-disable-next-line no-control-regex -- these are the characters that would end a header
  if (/[\0\r\n]|[^\0-\xff]/.test(text)) throw new TypeError(`"${text}" is an invalid header value.`);
  return text;
}

/** `freeze(headers)`: from now on only to be read, as those of a response that came from the network. */
module.exports = { Headers, freeze };
