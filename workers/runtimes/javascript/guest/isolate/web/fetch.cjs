'use strict';
const { onAbort } = require('./abort.cjs');
const { consume, hasContent } = require('./body.cjs');
const { Headers, freeze } = require('./headers.cjs');
const outside = require('./outside.cjs');
const { Request } = require('./request.cjs');
const { respond } = require('./response.cjs');

const maxBodyBytes = 10 * 1024 * 1024;
const withoutBody = new Set([101, 204, 205, 304]);
let lastId = 0;

/**
 * `fetch` by three calls: one sends the request and brings the head of the response, one brings the next bytes of the
 * body, which therefore flow as fast as they are read, and one says that nobody wants the rest.
 */
async function fetch(...given) {
  const request = new Request(...given);
  const { signal } = request;
  signal.throwIfAborted();
  const [scheme] = /^[^:]*:/.exec(request.url);
  if (scheme !== 'http:' && scheme !== 'https:') {
    throw new TypeError(`fetch failed: there is no "${scheme}" here, only "http:" and "https:"`);
  }
  const body = await bodyOf(request);
  signal.throwIfAborted();
  const exchange = new Exchange(signal);
  const { url, method, headers, redirect } = request;
  const head = await exchange.ask('fetch', { url, method, headers: [...headers], body, redirect });
  return responseOf(head, exchange);
}

Object.defineProperty(fetch, 'length', { value: 1, configurable: true });

async function bodyOf(request) {
  if (!hasContent(request)) return null;
  const bytes = await consume(request, maxBodyBytes);
  if (bytes === null) throw new TypeError('fetch failed: the body of the request is larger than 10 MB');
  return bytes.toBase64();
}

function responseOf({ status, statusText, headers, url, redirected, hasBody }, exchange) {
  const isEmpty = !hasBody || withoutBody.has(status);
  if (isEmpty) exchange.end();
  const fields = { type: 'basic', url, redirected, status, statusText, headers: freeze(new Headers(headers)) };
  return respond(isEmpty ? {} : { source: exchange }, fields);
}

/** One request and what comes of it. When its signal aborts, whatever waits for it is told at once. */
class Exchange {
  #id;
  #forget;
  #aborted = Promise.withResolvers();
  #done = false;

  constructor(signal) {
    lastId += 1;
    this.#id = lastId;
    this.#aborted.promise.catch(() => undefined);
    this.#forget = onAbort(signal, (reason) => {
      this.#aborted.reject(reason);
      void this.cancel();
    });
  }

  async ask(op, args) {
    try {
      return await Promise.race([outside.call(op, { id: this.#id, ...args }), this.#aborted.promise]);
    } catch (error) {
      this.end();
      throw faultOf(error);
    }
  }

  /** The next bytes of the body; null at its end. */
  async read() {
    // An abort that came before is told now, although the exchange is over.
    if (this.#done) return this.#nothingMore();
    const { done, chunk } = await this.ask('fetch.read', {});
    if (done !== true) return Uint8Array.fromBase64(chunk);
    this.end();
    return null;
  }

  async cancel() {
    if (this.#done) return;
    this.end();
    await outside.call('fetch.cancel', { id: this.#id }).catch(() => undefined);
  }

  end() {
    this.#done = true;
    this.#forget();
  }

  #nothingMore() {
    return Promise.race([this.#aborted.promise, Promise.resolve(null)]);
  }
}

/** A fault of the other side comes as a plain error that only has the name. */
const faultOf = (error) =>
  error?.name === 'TypeError' && !(error instanceof TypeError) ? new TypeError(error.message) : error;

module.exports = { fetch };
