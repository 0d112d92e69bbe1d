'use strict';
const { Body, branch, contentOf } = require('./body.cjs');
const { Headers, freeze } = require('./headers.cjs');
const { URL } = require('./url.cjs');

const withoutBody = new Set([101, 204, 205, 304]);
const redirects = new Set([301, 302, 303, 307, 308]);

/** Marks what our own modules make: a response that the constructor would refuse. */
const made = Symbol('made here');

class Response extends Body {
  #fields;

  constructor(body = null, init = {}) {
    if (init?.[made] !== undefined) {
      super(body);
      this.#fields = init[made];
      return;
    }
    const { status, statusText, headers } = checked(init ?? {});
    const [content, type] = contentOf(body);
    if (body !== null && body !== undefined && withoutBody.has(status)) {
      throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    }
    super(content);
    if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
    this.#fields = { type: 'default', url: '', redirected: false, status, statusText, headers };
  }

  static error() {
    return respond({}, { type: 'error', status: 0 });
  }

  static json(data, init = {}) {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError('Value is not JSON serializable');
    const { status, statusText, headers } = checked(init ?? {});
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(text, { status, statusText, headers });
  }

  static redirect(url, status = 302) {
    const location = new URL(String(url)).href;
    if (!redirects.has(status)) throw new RangeError(`Invalid status code ${status}`);
    return respond({}, { status, headers: freeze(new Headers({ location })) });
  }

  static {
    for (const name of ['type', 'url', 'redirected', 'status', 'statusText', 'headers']) {
      const get = function get() {
        return this.#fields[name];
      };
      Object.defineProperty(this.prototype, name, { get, enumerable: true, configurable: true });
    }
  }

  get ok() {
    return this.status >= 200 && this.status <= 299;
  }
  clone() {
    const headers = new Headers(this.headers);
    return respond(branch(this), { ...this.#fields, headers: this.type === 'basic' ? freeze(headers) : headers });
  }
  get [Symbol.toStringTag]() {
    return 'Response';
  }
}

/** @param content see body.cjs */
function respond(content, fields) {
  const usual = { type: 'default', url: '', redirected: false, status: 200, statusText: '' };
  return new Response(content, { [made]: { ...usual, headers: freeze(new Headers()), ...fields } });
}

function checked({ status = 200, statusText, headers }) {
  const code = Math.trunc(status);
  if (!(code >= 200 && code <= 599))
    throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
  const text = statusText === undefined ? '' : String(statusText);
  if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) throw new TypeError('Invalid statusText');
  return { status: code, statusText: text, headers: new Headers(headers) };
}

module.exports = { Response, respond };
