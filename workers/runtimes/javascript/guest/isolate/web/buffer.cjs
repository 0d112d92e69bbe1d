'use strict';
const { Buffer } = require('buffer');

const { toBase64 } = Uint8Array.prototype;
const { toString } = Buffer.prototype;
const plain = { ...Buffer };

/** The library knows no base64url, of which it reads the letters, and writes base64 slower than the engine does. */
const isBase64Url = (encoding) => String(encoding).toLowerCase() === 'base64url';
const readable = (encoding) => (isBase64Url(encoding) ? 'base64' : encoding);

Buffer.isEncoding = (encoding) => isBase64Url(encoding) || plain.isEncoding(encoding);
Buffer.byteLength = (value, encoding) => plain.byteLength(value, readable(encoding));
Buffer.from = (value, encodingOrOffset, length) => plain.from(value, readable(encodingOrOffset), length);

Buffer.prototype.toString = function (encoding, start, end) {
  const isUrl = isBase64Url(encoding);
  if (!isUrl && encoding !== 'base64') return Reflect.apply(toString, this, arguments);
  const bytes = Uint8Array.prototype.subarray.call(this, start ?? 0, end ?? this.length);
  return toBase64.call(bytes, isUrl ? { alphabet: 'base64url', omitPadding: true } : undefined);
};

module.exports = { Buffer };
