'use strict';
const { walkByEntries } = require('./iterable.cjs');
const { Blob, File } = require('./blob.cjs');

class FormData {
  #entries = [];

  constructor(form) {
    if (form !== undefined) throw new TypeError('FormData is made of nothing here: there are no forms');
  }

  append(name, value, filename) {
    this.#entries.push(entryOf(arguments, { name, value, filename }));
  }

  set(name, value, filename) {
    const entry = entryOf(arguments, { name, value, filename });
    const at = this.#entries.findIndex(([key]) => key === entry[0]);
    if (at === -1) return void this.#entries.push(entry);
    this.#entries[at] = entry;
    this.#entries = this.#entries.filter(([key], index) => index <= at || key !== entry[0]);
  }

  delete(name) {
    const wanted = text(name);
    this.#entries = this.#entries.filter(([key]) => key !== wanted);
  }
  get(name) {
    const wanted = text(name);
    return this.#entries.find(([key]) => key === wanted)?.[1] ?? null;
  }
  getAll(name) {
    const wanted = text(name);
    return this.#entries.filter(([key]) => key === wanted).map(([, value]) => value);
  }
  has(name) {
    const wanted = text(name);
    return this.#entries.some(([key]) => key === wanted);
  }

  *entries() {
    for (let at = 0; at < this.#entries.length; at += 1) yield [...this.#entries[at]];
  }
  *keys() {
    for (const [key] of this.entries()) yield key;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  forEach(callback, self) {
    for (const [key, value] of this.entries()) callback.call(self, value, key, this);
  }
  get [Symbol.toStringTag]() {
    return 'FormData';
  }
}

walkByEntries(FormData);

const text = (value) => String(value).toWellFormed();

/** Name and value as they are kept: a text, or a file that has a name. */
function entryOf({ length }, { name, value, filename }) {
  if (length < 2) throw new TypeError('2 arguments required');
  if (value instanceof Blob) {
    if (value instanceof File && length < 3) return [text(name), value];
    const { type, lastModified } = value;
    return [text(name), new File([value], length < 3 ? 'blob' : text(filename), { type, lastModified })];
  }
  if (length > 2) throw new TypeError('The "value" argument must be a Blob when a filename is given');
  return [text(name), text(value)];
}

module.exports = { FormData };
