'use strict';
const { AbortController } = require('./abort.cjs');
const { decode, encode } = require('./bytes.cjs');
const { Headers, freeze } = require('./headers.cjs');
const { decodeForm } = require('./multipart.cjs');
const { Request } = require('./request.cjs');
const { URLSearchParams } = require('./url-search-params.cjs');

const withoutBody = new Set(['GET', 'HEAD']);

/** The HTTP request of a run (`sdk.request`). Its parts are made when they are asked for. */
class IncomingRequest {
  #given;
  #payloadText;
  #call;
  #kept = {};

  constructor(given, payloadText, call) {
    this.#given = given;
    this.#payloadText = payloadText;
    this.#call = call;
  }

  get method() {
    return this.#given.method;
  }
  get path() {
    return this.#given.path;
  }
  get url() {
    const { base, path, query } = this.#given;
    return `${base}${path === '/' ? '' : path}${query === '' ? '' : `?${query}`}`;
  }
  get ip() {
    return this.#given.ip;
  }
  get query() {
    return (this.#kept.query ??= new URLSearchParams(this.#given.query));
  }
  get headers() {
    return (this.#kept.headers ??= freeze(new Headers(this.#given.headers)));
  }
  get rawBody() {
    return (this.#kept.rawBody ??= this.#bytes());
  }
  get signal() {
    return (this.#kept.signal ??= this.#abortWhenGone());
  }

  // Promises, as of the web's own Request.
  async json() {
    return JSON.parse(await this.text());
  }
  async text() {
    return decode(this.rawBody);
  }
  async formData() {
    return decodeForm(this.rawBody, this.headers.get('content-type') ?? '');
  }
  get [Symbol.toStringTag]() {
    return 'IncomingRequest';
  }

  /** JSON and text were decoded strictly: encoded again they have the bytes that came. */
  #bytes() {
    const { kind, body } = this.#given;
    if (kind === 'none') return new Uint8Array();
    if (kind === 'bytes') return Uint8Array.fromBase64(body);
    return encode(kind === 'text' ? JSON.parse(this.#payloadText) : this.#payloadText);
  }

  #abortWhenGone() {
    const controller = new AbortController();
    this.#call('request.gone', {}).then(
      (isGone) => (isGone === true ? controller.abort() : undefined),
      () => undefined,
    );
    return controller.signal;
  }
}

const requestOf = (given, payloadText, call) => new IncomingRequest(given, payloadText, call);

/** The fields of a form, those of one name as a list; null for a body that is no form after all. */
function fieldsOf(request) {
  let form;
  try {
    form = decodeForm(request.rawBody, request.headers.get('content-type') ?? '');
  } catch {
    return null;
  }
  const names = [...new Set(form.keys())];
  const fields = names.map((name) => [name, form.getAll(name).filter((value) => typeof value === 'string')]);
  return Object.fromEntries(
    fields.filter(([, all]) => all.length > 0).map(([name, all]) => [name, all.length === 1 ? all[0] : all]),
  );
}

/** Calls a handler of the form `fetch(request, env, sdk)`; without HTTP the request is a POST of the payload. */
function fetchBy(handler, payload, sdk) {
  const { request: came } = sdk;
  if (came === null) {
    const headers = { 'content-type': 'application/json' };
    const made = new Request('http://function.invalid/', { method: 'POST', headers, body: JSON.stringify(payload) });
    return handler(made, sdk.env, sdk);
  }
  const { url, method, headers, rawBody, signal } = came;
  const body = withoutBody.has(method) || rawBody.length === 0 ? null : rawBody;
  return handler(new Request(url, { method, headers, body, signal }), sdk.env, sdk);
}

module.exports = { fetchBy, fieldsOf, requestOf };
