'use strict';
const { Blob, bytesOf } = require('./blob.cjs');
const { bytesOfBuffer, concat, decode, encode } = require('./bytes.cjs');
const { FormData } = require('./form-data.cjs');
const { decodeForm, encodeForm } = require('./multipart.cjs');
const { URLSearchParams } = require('./url-search-params.cjs');

/**
 * The body of a request or a response: nothing, bytes, a source (what comes from the network) or a stream. The
 * streams' module is loaded when someone asks for a stream and not before.
 * @returns `[content, content type or null]`
 */
function contentOf(value) {
  if (value === null || value === undefined) return [{}, null];
  if (typeof value === 'string') return [{ bytes: encode(value) }, 'text/plain;charset=UTF-8'];
  if (value instanceof FormData) {
    const [bytes, type] = encodeForm(value);
    return [{ bytes }, type];
  }
  if (value instanceof URLSearchParams) {
    return [{ bytes: encode(value.toString()) }, 'application/x-www-form-urlencoded;charset=UTF-8'];
  }
  if (value instanceof Blob) return [{ bytes: bytesOf(value) }, value.type || null];
  const bytes = bytesOfBuffer(value);
  if (bytes !== undefined) return [{ bytes: bytes.slice() }, null];
  const stream = streamOf(value);
  if (stream !== undefined) return [{ stream }, null];
  return [{ bytes: encode(String(value)) }, 'text/plain;charset=UTF-8'];
}

function streamOf(value) {
  if (typeof value !== 'object' || typeof (value.getReader ?? value[Symbol.asyncIterator]) !== 'function')
    return undefined;
  const { ReadableStream, isDisturbed } = require('./streams.cjs');
  if (!(value instanceof ReadableStream)) return ReadableStream.from(value);
  if (value.locked || isDisturbed(value)) throw new TypeError('Response body object should not be disturbed or locked');
  return value;
}

/** For our own modules: the content as bytes, and a second body that carries the same. */
let consume;
let branch;
let hasContent;
let takeContent;

class Body {
  #content;
  #used = false;

  constructor(content) {
    this.#content = content;
  }

  static {
    consume = (body, maxBytes) => body.#consume(maxBytes);
    branch = (body) => body.#branch();
    hasContent = (body) => Object.keys(body.#content).length > 0;
    takeContent = (body) => body.#take();
  }

  get body() {
    const { bytes, source, stream } = this.#content;
    if (stream !== undefined) return stream;
    if (bytes === undefined && source === undefined) return null;
    const { streamOfBytes, streamOfSource } = require('./streams.cjs');
    const made = source === undefined ? streamOfBytes(bytes) : streamOfSource(source);
    // A body that was used already yields a stream that says so.
    if (this.#used) made.getReader();
    this.#content = { stream: made };
    return made;
  }

  get bodyUsed() {
    const { stream } = this.#content;
    return this.#used || (stream !== undefined && require('./streams.cjs').isDisturbed(stream));
  }

  async arrayBuffer() {
    const bytes = await this.#consume();
    return bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;
  }
  async blob() {
    return new Blob([await this.#consume()], { type: this.headers.get('content-type') ?? '' });
  }
  async bytes() {
    return this.#consume();
  }
  async formData() {
    return decodeForm(await this.#consume(), this.headers.get('content-type') ?? '');
  }
  async json() {
    return JSON.parse(decode(await this.#consume()));
  }
  async text() {
    return decode(await this.#consume());
  }

  /** @returns the bytes; null when there are more than `maxBytes` */
  async #consume(maxBytes = Infinity) {
    const { bytes, source, stream } = this.#content;
    if (this.bodyUsed || stream?.locked === true) throw new TypeError('Body is unusable: Body has already been read');
    // Reading nothing does not use a body up.
    this.#used = Object.keys(this.#content).length > 0;
    if (stream !== undefined) return collect(require('./streams.cjs').chunksOf(stream), maxBytes);
    if (source !== undefined) return collect(chunksOfSource(source), maxBytes);
    return collect(bytes === undefined ? [] : [bytes.slice()], maxBytes);
  }

  /** The content itself, which is used up by that: bytes, or a stream of them, or nothing. */
  #take() {
    if (this.bodyUsed || this.#content.stream?.locked === true)
      throw new TypeError('Body is unusable: Body has already been read');
    const { bytes } = this.#content;
    const content = bytes === undefined ? { stream: this.body } : { bytes };
    this.#used = Object.keys(this.#content).length > 0;
    return content;
  }

  #branch() {
    const { bytes, stream } = this.#content;
    if (this.bodyUsed || stream?.locked === true) throw new TypeError('Body is unusable: Body has already been read');
    if (bytes !== undefined) return { bytes };
    const whole = this.body;
    if (whole === null) return {};
    const [mine, other] = whole.tee();
    this.#content = { stream: mine };
    return { stream: other };
  }
}

async function* chunksOfSource(source) {
  for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) yield chunk;
}

async function collect(chunks, maxBytes) {
  const all = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > maxBytes) return null;
    all.push(chunk);
  }
  return all.length === 1 ? all[0] : concat(all);
}

module.exports = { Body, branch, consume, contentOf, hasContent, takeContent };
