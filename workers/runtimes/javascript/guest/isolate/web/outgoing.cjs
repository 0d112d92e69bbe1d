'use strict';
const { utf8toString } = require('@exodus/bytes/utf8.js');
const { takeContent } = require('./body.cjs');
const { Response } = require('./response.cjs');

/** A body up to this goes with the result; a longer one goes ahead of it in pieces. */
const wholeBytes = 256 * 1024;
const pieceBytes = 128 * 1024;
/**
 * Pieces on their way at a time. With one alone, each of the four processes on the way was idle while the others worked.
 * The host takes no more than its window, so a slow reader still slows down whoever makes them.
 */
const maxUnderWay = 4;

function createSender(call) {
  const underWay = [];
  const write = async (bytes) => {
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      const sent = call('response.write', { chunk: bytes.subarray(at, at + pieceBytes).toBase64() });
      // Whoever waits for it is told.
      sent.catch(() => undefined);
      underWay.push(sent);
      if (underWay.length >= maxUnderWay) await underWay.shift();
    }
  };
  const end = async () => {
    for (const sent of underWay) await sent;
    await call('response.end', {});
  };
  return { write, end };
}

const isOurs = (value) => value instanceof Response;

/** The body of a response from the network was decoded: these headers describe the encoded one. */
const ofEncoded = new Set(['content-encoding', 'content-length', 'transfer-encoding']);

function headOf(response) {
  const isFetched = response.type === 'basic';
  return {
    status: response.status,
    headers: [...response.headers].filter(([name]) => !isFetched || !ofEncoded.has(name)),
  };
}

function textOf(bytes) {
  try {
    return utf8toString(bytes);
  } catch {
    return null;
  }
}

function whole(head, bytes) {
  const text = textOf(bytes);
  const body = text ?? bytes.toBase64();
  return { text: JSON.stringify({ ...head, body }), response: text === null ? 'base64' : 'text' };
}

/** @returns the result of the run, and in which form it has the response */
async function answerWith(response, call) {
  const head = headOf(response);
  const { bytes = new Uint8Array(), stream } = takeContent(response);
  if (stream === undefined || stream === null) {
    if (bytes.length <= wholeBytes) return whole(head, bytes);
    await call('response.start', head);
    const sender = createSender(call);
    await sender.write(bytes);
    await sender.end();
  } else {
    await sendStream(head, stream, call);
  }
  return { text: 'null', response: 'sent' };
}

async function sendStream(head, stream, call) {
  const reader = stream.getReader();
  try {
    await call('response.start', head);
    const sender = createSender(call);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return await sender.end();
      if (!(value instanceof Uint8Array)) throw new TypeError('A body of a response carries Uint8Array chunks only');
      await sender.write(value);
    }
  } catch (error) {
    reader.cancel(error).catch(() => undefined);
    throw error;
  }
}

module.exports = { answerWith, isOurs };
