'use strict';
const { walkByEntries } = require('./iterable.cjs');
const { decode } = require('./bytes.cjs');

/** For `URL` alone: parameters that follow its query, and that it follows. */
let attach;
let refill;

class URLSearchParams {
  #pairs = [];
  #onChange = undefined;

  constructor(init) {
    if (init === undefined || init === null) return;
    this.#pairs = typeof init === 'object' || typeof init === 'function' ? pairsOf(init) : parse(withoutMark(init));
  }

  static {
    attach = (text, onChange) => {
      const params = new URLSearchParams(text);
      params.#onChange = onChange;
      return params;
    };
    refill = (params, text) => {
      params.#pairs = parse(withoutMark(text));
    };
  }

  get size() {
    return this.#pairs.length;
  }
  append(name, value) {
    needs(arguments, 2);
    this.#pairs.push([text(name), text(value)]);
    this.#changed();
  }
  delete(name, value) {
    needs(arguments, 1);
    this.#pairs = this.#pairs.filter((pair) => !matches(pair, name, value));
    this.#changed();
  }
  get(name) {
    needs(arguments, 1);
    return this.#pairs.find((pair) => matches(pair, name))?.[1] ?? null;
  }
  getAll(name) {
    needs(arguments, 1);
    return this.#pairs.filter((pair) => matches(pair, name)).map(([, value]) => value);
  }
  has(name, value) {
    needs(arguments, 1);
    return this.#pairs.some((pair) => matches(pair, name, value));
  }
  set(name, value) {
    needs(arguments, 2);
    const at = this.#pairs.findIndex((pair) => matches(pair, name));
    if (at === -1) return this.append(name, value);
    this.#pairs = this.#pairs.filter((pair, index) => index <= at || !matches(pair, name));
    this.#pairs[at] = [text(name), text(value)];
    this.#changed();
  }
  sort() {
    this.#pairs.sort(([a], [b]) => Number(a > b) - Number(a < b));
    this.#changed();
  }

  *entries() {
    for (let at = 0; at < this.#pairs.length; at += 1) yield [...this.#pairs[at]];
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
  toString() {
    return this.#pairs.map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`).join('&');
  }
  get [Symbol.toStringTag]() {
    return 'URLSearchParams';
  }

  #changed() {
    this.#onChange?.(this.toString());
  }
}

walkByEntries(URLSearchParams);

const text = (value) => String(value).toWellFormed();
const withoutMark = (query) => String(query).replace(/^\?/, '');
const matches = ([key, own], name, value) => key === text(name) && (value === undefined || own === text(value));

function needs({ length }, count) {
  if (length < count) throw new TypeError(`${count} argument${count === 1 ? '' : 's'} required`);
}

function pairsOf(init) {
  if (typeof init[Symbol.iterator] !== 'function') {
    // As a record, two names that become one after repair are one.
    return [...new Map(Object.keys(init).map((name) => [text(name), text(init[name])]))];
  }
  return Array.from(init, (item) => {
    const pair = [...item];
    if (pair.length !== 2) throw new TypeError('Each query pair must be an iterable [name, value] tuple');
    return pair.map(text);
  });
}

const parse = (query) =>
  text(query)
    .split('&')
    .filter((piece) => piece !== '')
    .map((piece) => {
      const at = piece.indexOf('=');
      const halves = at === -1 ? [piece, ''] : [piece.slice(0, at), piece.slice(at + 1)];
      return halves.map((half) => decodePart(half.replaceAll('+', ' ')));
    });

/** Broken escapes stay as they are, broken UTF-8 becomes U+FFFD. */
function decodePart(part) {
  if (!part.includes('%')) return part;
  try {
    return decodeURIComponent(part);
  } catch {
    const bytes = encodeURI(part)
      .replaceAll('%25', '%')
      .replaceAll(/%(?![0-9a-f]{2})/gi, '%25')
      .split(/(%[0-9a-f]{2})/i)
      .flatMap((piece) =>
        /^%[0-9a-f]{2}$/i.test(piece) ? [Number(`0x${piece.slice(1)}`)] : Array.from(piece, codeOf),
      );
    return decode(Uint8Array.from(bytes));
  }
}

const codeOf = (character) => character.charCodeAt(0);

const escapes = { '%20': '+', '!': '%21', "'": '%27', '(': '%28', ')': '%29', '~': '%7E' };
const encodePart = (part) => encodeURIComponent(part).replaceAll(/%20|[!'()~]/g, (found) => escapes[found]);

module.exports = { URLSearchParams, attach, refill };
