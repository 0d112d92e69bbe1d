import { type SentEvent, ProviderFault } from './dialect.ts';
import type { Exchange } from './exchange.ts';
import type { SseReader } from './sse.ts';

// Of events that nobody has taken yet, in UTF-16 units: one socket's read buffer.
const mostWaiting = 65_536;
// An end marker is followed by the end of the answer within a round trip.
const graceMs = 2000;

type Step = IteratorResult<readonly SentEvent[], undefined>;

const lastStep: Step = { done: true, value: undefined };

/**
 * The events of a stream, as many at a step as have come; for one reader. While the reader does not ask, no more than 64 KiB
 * are kept and the provider waits.
 */
export class EventStream implements AsyncIterableIterator<readonly SentEvent[], undefined> {
  readonly #reader: SseReader;
  readonly #exchange: Exchange;
  readonly #secret: string;
  #waiting: SentEvent[] = [];
  #size = 0;
  #asked: PromiseWithResolvers<Step> | null = null;
  #ended = false;
  #broken: ProviderFault | null = null;
  #released = false;

  constructor(exchange: Exchange, reader: SseReader, secret: string) {
    this.#exchange = exchange;
    this.#reader = reader;
    this.#secret = secret;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @throws {ProviderFault} once all events that came before it are taken */
  next(): Promise<Step> {
    if (this.#waiting.length > 0) {
      const value = this.#waiting;
      this.#waiting = [];
      this.#size = 0;
      this.#exchange.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.#broken) return Promise.reject(this.#broken);
    if (this.#ended) return Promise.resolve(lastStep);
    this.#asked = Promise.withResolvers();
    return this.#asked.promise;
  }

  /** Whoever stops reading before the end closes the connection. */
  return(): Promise<Step> {
    if (!this.#released) this.#exchange.stop(new ProviderFault('cut', 'Nobody reads the answer any more.'));
    return Promise.resolve(lastStep);
  }

  /** The end marker has come: what follows it is thrown away, and the connection is kept for the next request. */
  release(): void {
    this.#released = true;
    this.#waiting = [];
    this.#exchange.release(graceMs);
  }

  readonly sink = {
    data: (chunk: Buffer): void => this.#take(chunk),
    end: (): void => this.#end(),
    fail: (fault: ProviderFault): void => this.#fail(fault),
  };

  #take(chunk: Buffer): void {
    if (this.#released) return;
    const events = this.#reader.feed(chunk);
    if (events.length === 0) return;
    for (const event of events) this.#keep(event);
    if (this.#asked) this.#hand();
    else if (this.#size > mostWaiting) this.#exchange.pause();
  }

  #end(): void {
    this.#ended = true;
    this.#asked?.resolve(lastStep);
    this.#asked = null;
  }

  #fail(fault: ProviderFault): void {
    this.#broken = fault;
    this.#asked?.reject(fault);
    this.#asked = null;
  }

  #keep(event: SentEvent): void {
    this.#size += event.data.length;
    // An error may repeat the key. Within a text of the model the quotes would have a backslash.
    const isError = event.data.includes('"error"');
    this.#waiting.push(isError ? { event: event.event, data: withoutSecret(event.data, this.#secret) } : event);
  }

  #hand(): void {
    const value = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    this.#asked?.resolve({ done: false, value });
    this.#asked = null;
  }
}

// Shorter ones are no keys, and would be found in innocent words.
const shortestSecret = 6;

/** A text without the key, whatever the provider repeats. */
export const withoutSecret = (text: string, secret: string): string =>
  secret.length < shortestSecret ? text : text.replaceAll(secret, '[key]');
