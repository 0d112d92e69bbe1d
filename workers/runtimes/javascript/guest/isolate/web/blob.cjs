'use strict';
const { bytesOfBuffer, concat, decode, encode } = require('./bytes.cjs');

/** The bytes of a blob: nobody but our own modules may have them without a copy. */
let bytesOf;

class Blob {
  #bytes;
  #type;

  constructor(parts = [], options = {}) {
    if (typeof parts !== 'object' || parts === null || typeof parts[Symbol.iterator] !== 'function') {
      throw new TypeError('The "sources" argument must be a sequence');
    }
    const native = options?.endings === 'native';
    this.#bytes = concat([...parts].map((part) => bytesOfPart(part, native)));
    this.#type = typeName(options?.type);
  }

  static {
    bytesOf = (blob) => blob.#bytes;
  }

  get size() {
    return this.#bytes.length;
  }
  get type() {
    return this.#type;
  }
  async arrayBuffer() {
    return this.#bytes.slice().buffer;
  }
  async bytes() {
    return this.#bytes.slice();
  }
  async text() {
    return decode(this.#bytes);
  }

  slice(start = 0, end = this.size, type = '') {
    const part = new Blob([], { type });
    part.#bytes = this.#bytes.slice(start, end);
    return part;
  }

  stream() {
    const { streamOfBytes } = require('./streams.cjs');
    return streamOfBytes(this.#bytes.slice());
  }

  get [Symbol.toStringTag]() {
    return 'Blob';
  }
}

function bytesOfPart(part, native) {
  if (part instanceof Blob) return bytesOf(part);
  // Copied: the part may change later, the blob does not.
  const bytes = bytesOfBuffer(part)?.slice();
  if (bytes !== undefined) return bytes;
  const text = String(part);
  return encode(native ? text.replaceAll(/\r\n?/g, '\n') : text);
}

const typeName = (type) => {
  const name = String(type ?? '');
  return /[^\x20-\x7e]/.test(name) ? '' : name.toLowerCase();
};

class File extends Blob {
  #name;
  #lastModified;

  constructor(parts, name, options) {
    if (arguments.length < 2) throw new TypeError('The "fileBits" and "fileName" arguments must be specified');
    super(parts, options);
    this.#name = String(name).toWellFormed();
    this.#lastModified = Math.trunc(Number(options?.lastModified ?? Date.now())) || 0;
  }

  get name() {
    return this.#name;
  }
  get lastModified() {
    return this.#lastModified;
  }
  get webkitRelativePath() {
    return '';
  }
  get [Symbol.toStringTag]() {
    return 'File';
  }
}

module.exports = { Blob, File, bytesOf };
