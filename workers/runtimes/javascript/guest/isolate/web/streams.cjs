'use strict';
const streams = require('web-streams-polyfill');
const { bytesOfBuffer } = require('./bytes.cjs');

const { ReadableStream, TransformStream } = streams;
const pieceBytes = 64 * 1024;

const streamOfBytes = (bytes) => {
  let at = 0;
  return new ReadableStream({
    type: 'bytes',
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.slice(at, at + pieceBytes));
      at += pieceBytes;
      if (at < bytes.length) return;
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
};

/** @param source `read()` promises the next bytes, null at the end; `cancel(reason)` wants no more of them */
const streamOfSource = (source) =>
  new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const chunk = await source.read();
      if (chunk !== null) {
        controller.enqueue(chunk);
        return;
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
    cancel: (reason) => source.cancel(reason),
  });

const pass = (text, controller) => {
  if (text !== '') controller.enqueue(text);
};

/** Someone has read from it, or has it in hand. */
// oxlint-disable-next-line no-underscore-dangle -- the library's field: there is no other way to know
const isDisturbed = (stream) => stream._disturbed === true;

/** @throws what the stream fails with; TypeError when it carries anything but bytes */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    if (!(value instanceof Uint8Array)) throw new TypeError('Received non-Uint8Array chunk');
    yield value;
  }
}

class TextEncoderStream {
  #transform;

  constructor() {
    const { TextEncoder } = require('@exodus/bytes/encoding-lite.js');
    const encoder = new TextEncoder();
    let lead = '';
    this.#transform = new TransformStream({
      transform(chunk, controller) {
        const text = lead + String(chunk);
        // Half of a pair waits for the other.
        lead = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : '';
        const bytes = encoder.encode(lead === '' ? text : text.slice(0, -1));
        if (bytes.length > 0) controller.enqueue(bytes);
      },
      flush(controller) {
        if (lead !== '') controller.enqueue(encoder.encode(lead));
      },
    });
  }

  get encoding() {
    return 'utf-8';
  }
  get readable() {
    return this.#transform.readable;
  }
  get writable() {
    return this.#transform.writable;
  }
  get [Symbol.toStringTag]() {
    return 'TextEncoderStream';
  }
}

class TextDecoderStream {
  #transform;
  #decoder;

  constructor(label = 'utf-8', options = {}) {
    const { TextDecoder } = require('@exodus/bytes/encoding-lite.js');
    const decoder = new TextDecoder(label, options);
    this.#decoder = decoder;
    this.#transform = new TransformStream({
      transform(chunk, controller) {
        const bytes = bytesOfBuffer(chunk);
        if (bytes === undefined) throw new TypeError('The chunk must be a buffer or a view on one');
        pass(decoder.decode(bytes, { stream: true }), controller);
      },
      flush: (controller) => pass(decoder.decode(), controller),
    });
  }

  get encoding() {
    return this.#decoder.encoding;
  }
  get fatal() {
    return this.#decoder.fatal;
  }
  get ignoreBOM() {
    return this.#decoder.ignoreBOM;
  }
  get readable() {
    return this.#transform.readable;
  }
  get writable() {
    return this.#transform.writable;
  }
  get [Symbol.toStringTag]() {
    return 'TextDecoderStream';
  }
}

module.exports = {
  ...streams,
  TextDecoderStream,
  TextEncoderStream,
  chunksOf,
  isDisturbed,
  streamOfBytes,
  streamOfSource,
};
