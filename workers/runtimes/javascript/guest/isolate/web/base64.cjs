'use strict';
const { latin1 } = require('./bytes.cjs');
const { DOMException } = require('./dom-exception.cjs');

const invalid = (message) => new DOMException(message, 'InvalidCharacterError');

function btoa(data) {
  if (arguments.length === 0) throw new TypeError('The "data" argument must be specified');
  const text = String(data);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 0xff) throw invalid('Invalid character');
    bytes[at] = code;
  }
  return bytes.toBase64();
}

function atob(data) {
  if (arguments.length === 0) throw new TypeError('The "data" argument must be specified');
  try {
    return latin1(Uint8Array.fromBase64(String(data)));
  } catch {
    throw invalid('The string to be decoded is not correctly encoded.');
  }
}

module.exports = { atob, btoa };
