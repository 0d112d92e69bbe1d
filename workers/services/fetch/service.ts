import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { type Response, fetch } from 'undici';
import type { z } from 'zod';
import type { Egress } from '#lib/egress.ts';
import { EgressRefused, explainFailure } from '#lib/egress/failures.ts';
import { CallFault } from '../../runtimes/runtime.ts';
import type { OpenService } from '../services.ts';
import { bodyArgs, failed, fetchArgs, maxBodyBytes, parseFetchArgs, requestOf } from './request.ts';

const chunkBytes = 256 * 1024;

/** The body of an answer, handed on in pieces when they are asked for: no more of it is held than what came last. */
class ResponseBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(reader: ReadableStreamDefaultReader<Uint8Array>) {
    this.#reader = reader;
  }

  /**
   * The next piece, at most 256 KB; null at the end.
   * @throws {CallFault} beyond 10 MB
   * @throws what reading throws
   */
  read(): Promise<Uint8Array | null> {
    // One after the other, so that pieces do not change places.
    const queued = this.#last.then(() => this.#next());
    this.#last = queued.catch(() => undefined);
    return queued;
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }

  async #next(): Promise<Uint8Array | null> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#take(value);
    }
    const piece = this.#rest.subarray(0, chunkBytes);
    this.#rest = this.#rest.subarray(chunkBytes);
    return piece;
  }

  #take(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    if (this.#bytes > maxBodyBytes) throw failed(`the answer is larger than ${maxBodyBytes / 1024 / 1024} MB.`);
    this.#rest = bytes;
  }
}

export interface FetchServiceDeps {
  readonly egress: Pick<Egress, 'check' | 'dispatcher'>;
}

const maxOpen = 64;
// A request that is cancelled leaves its connection to be made, or given up, which takes undici as long as this.
const connectTimeoutMs = 5000;

/** A request from its call to the last byte of its answer. */
interface Exchange {
  readonly abort: AbortController;
  readonly url: URL;
  body: ResponseBody | null;
}

const causeOf = (error: unknown): unknown =>
  error instanceof TypeError && error.cause !== undefined ? error.cause : error;

/** undici's own sentences about redirects, in ours; they have no codes. */
const redirects: readonly (readonly [RegExp, string])[] = [
  [/redirect count/i, 'the address redirects again and again.'],
  [/unexpected redirect/i, 'the address redirects, which the request does not allow.'],
  [/scheme must be/i, 'the address redirects to one that is not http:// or https://.'],
];

/** Redirects lead to hosts that the author did not write. */
const isRefusedRedirect = (cause: unknown, { hostname }: URL): boolean =>
  cause instanceof EgressRefused && !cause.message.includes(hostname.replace(/^\[(.*)\]$/, '$1'));

/** In words for the author: about the host that the author wrote, and nothing that lies behind it. */
const faultOf = (error: unknown, { url, abort }: Exchange): CallFault => {
  if (error instanceof CallFault) return error;
  if (abort.signal.aborted) return new CallFault('AbortError', 'The request was cancelled.');
  const cause = causeOf(error);
  if (isRefusedRedirect(cause, url)) return failed('the address redirects to one that may not be reached from here.');
  const about = cause instanceof Error ? redirects.find(([words]) => words.test(cause.message)) : undefined;
  return failed(about?.[1] ?? explainFailure(cause, url.hostname).message);
};

const describe = (response: Response) => ({
  status: response.status,
  statusText: response.statusText,
  headers: [...response.headers],
  url: response.url,
  redirected: response.redirected,
  hasBody: response.body !== null,
});

/** The requests of one run. */
class Exchanges {
  readonly #deps: FetchServiceDeps;
  readonly #open = new Map<number, Exchange>();
  /** Requests that were cancelled while they may still have been connecting. */
  #connecting = 0;
  #over = false;

  constructor(deps: FetchServiceDeps) {
    this.#deps = deps;
  }

  async fetch(args: z.output<typeof fetchArgs>): Promise<ReturnType<typeof describe>> {
    const exchange = this.#begin(args);
    try {
      const request = requestOf(exchange.url, args, exchange.abort.signal);
      const response = await fetch(request, { dispatcher: this.#deps.egress.dispatcher('function') });
      if (response.body === null) this.#open.delete(args.id);
      else exchange.body = new ResponseBody(response.body.getReader());
      return describe(response);
    } catch (error) {
      if (exchange.abort.signal.aborted) this.#linger();
      this.#open.delete(args.id);
      throw faultOf(error, exchange);
    }
  }

  /** The next piece of an answer's body; a body that was read to its end stays ended. */
  async read(id: number): Promise<Uint8Array | null> {
    const exchange = this.#open.get(id);
    if (!exchange?.body) return null;
    try {
      const piece = await exchange.body.read();
      if (piece === null) this.#open.delete(id);
      return piece;
    } catch (error) {
      const fault = faultOf(error, exchange);
      this.#cancel(id, exchange);
      throw fault;
    }
  }

  cancel(id: number): void {
    const exchange = this.#open.get(id);
    if (exchange !== undefined) this.#cancel(id, exchange);
  }

  end(): void {
    this.#over = true;
    for (const [id, exchange] of this.#open) this.#cancel(id, exchange);
  }

  #cancel(id: number, { abort, body }: Exchange): void {
    // One without an answer keeps its place until undici has let go of it.
    if (body !== null) this.#open.delete(id);
    abort.abort();
    void body?.cancel();
  }

  #linger(): void {
    this.#connecting += 1;
    setTimeout(() => (this.#connecting -= 1), connectTimeoutMs).unref();
  }

  #begin({ id, url }: z.output<typeof fetchArgs>): Exchange {
    if (this.#over) throw failed('the run is over.');
    if (this.#open.has(id)) throw failed('there is a request of that number.');
    if (this.#open.size + this.#connecting >= maxOpen) {
      throw failed(`more than ${maxOpen} requests are open at a time. Read or cancel the bodies of answers.`);
    }
    const exchange = { abort: new AbortController(), url: this.#checked(url), body: null };
    this.#open.set(id, exchange);
    return exchange;
  }

  #checked(url: string): URL {
    try {
      return this.#deps.egress.check(url, 'function');
    } catch (error) {
      throw error instanceof EgressRefused ? failed(error.message) : error;
    }
  }
}

/**
 * HTTP for functions, to public addresses only: every connection is checked when it is made, those of redirects, too.
 * Requests end with their run.
 */
export const fetchService =
  (deps: FetchServiceDeps): OpenService =>
  () => {
    const exchanges = new Exchanges(deps);
    return {
      answers: {
        fetch: async (args) => exchanges.fetch(parseFetchArgs(fetchArgs, args)),
        'fetch.read': async (args) => {
          const piece = await exchanges.read(parseFetchArgs(bodyArgs, args).id);
          return piece === null ? { done: true } : { chunk: Buffer.from(piece).toString('base64') };
        },
        'fetch.cancel': async (args) => exchanges.cancel(parseFetchArgs(bodyArgs, args).id),
      },
      close: async () => exchanges.end(),
    };
  };
