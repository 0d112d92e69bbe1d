'use strict';
const { utf8fromStringLoose, utf8toStringLoose } = require('@exodus/bytes/utf8.js');

const blockLength = 8192;

/** The bytes of a buffer or of a view on one; not a copy. Undefined for anything else. */
function bytesOfBuffer(value) {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return undefined;
}

function concat(chunks) {
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/** One character for each byte. */
function latin1(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += blockLength) {
    text += String.fromCharCode.apply(undefined, bytes.subarray(at, at + blockLength));
  }
  return text;
}

/** A lone surrogate becomes U+FFFD, as everywhere on the web. */
const encode = (text) => utf8fromStringLoose(text);

/** UTF-8 without its byte order mark; what is no UTF-8 becomes U+FFFD. */
function decode(bytes) {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return utf8toStringLoose(hasMark ? bytes.subarray(3) : bytes);
}

module.exports = { bytesOfBuffer, concat, decode, encode, latin1 };
