'use strict';
const { contentOf } = require('./web/body.cjs');
const { Headers, freeze } = require('./web/headers.cjs');
const { respond } = require('./web/response.cjs');

/** Below what one call may carry. */
const pieceBytes = 192 * 1024;
let lastId = 0;

/** The files of the project: uploads are sent in pieces, downloads come as they are read. */
function createStorage(call) {
  return Object.freeze({
    /** @param body text, bytes, a Blob, a stream, or an iterable of bytes */
    upload: (path, body, options = {}) => upload(call, path, body, options),
    /** Answers a `Response`, whose body is read in pieces. */
    download: (path, options = {}) => download(call, path, options),
    list: (prefix = '', options = {}) => call('storage.list', { ...options, prefix }),
    remove: (paths, { bucket } = {}) => call('storage.remove', { bucket, names: [paths].flat() }),
    signedUrl: (path, expiresIn = 3600, { bucket } = {}) =>
      call('storage.signedUrl', { bucket, name: path, expiresIn }),
  });
}

async function upload(call, path, body, { bucket, contentType, cacheControl, upsert }) {
  const id = ++lastId;
  const [content, type] = contentOf(body);
  const options = { bucket, contentType: contentType ?? type, cacheControl, upsert };
  await call('storage.begin', { id, name: path, ...options });
  try {
    for await (const chunk of chunksOf(content)) {
      for (let at = 0; at < chunk.length; at += pieceBytes) {
        await call('storage.write', { id, chunk: chunk.subarray(at, at + pieceBytes).toBase64() });
      }
    }
    return await call('storage.end', { id });
  } catch (error) {
    await call('storage.cancel', { id }).catch(() => undefined);
    throw error;
  }
}

async function* chunksOf({ bytes, stream }) {
  if (bytes !== undefined) yield bytes;
  else if (stream !== undefined) yield* require('./web/streams.cjs').chunksOf(stream);
}

async function download(call, path, { bucket }) {
  const id = ++lastId;
  const { size, contentType, etag, lastModified } = await call('storage.open', { id, bucket, name: path });
  const source = {
    read: async () => {
      const { done, chunk } = await call('storage.read', { id });
      return done === true ? null : Uint8Array.fromBase64(chunk);
    },
    cancel: () => call('storage.cancel', { id }).catch(() => undefined),
  };
  const headers = freeze(
    new Headers({
      'content-type': contentType,
      'content-length': String(size),
      etag: `"${etag}"`,
      'last-modified': new Date(lastModified).toUTCString(),
    }),
  );
  return respond({ source }, { headers });
}

module.exports = { createStorage };
