import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import type { ReservedBytes } from '#lib/byte-budget.ts';
import { type SentEvent, ProviderFault } from './dialect.ts';
import type { Exchange } from './transport.ts';

/**
 * Counts bytes of an answer that are kept in memory.
 * @throws {ProviderFault} `overloaded` when there is no room for them
 */
export const reserve = (reserved: Pick<ReservedBytes, 'grow'> | undefined, bytes: number): void => {
  if (reserved === undefined || reserved.grow(bytes)) return;
  throw new ProviderFault('overloaded', 'Too many bytes of answers are in flight.');
};

/**
 * The bound of one event, in UTF-16 units: real events are far below it, and a stream without line ends fills no
 * memory.
 */
const maxEventBytes = 1_000_000;

interface SseReader {
  /**
   * Takes what came and answers the events that are whole with it. One that has no blank line after it at the stream's
   * end is no event (HTML standard, 9.2.6).
   * @throws {ProviderFault} `bad_answer` when an event is longer than 1,000,000 characters
   */
  readonly feed: (chunk: Buffer) => readonly SentEvent[];
}

/** Text of bytes that may end within a character. Nearly all chunks end with a line: those need no state. */
const createDecode = (): ((chunk: Buffer) => string) => {
  let decoder: StringDecoder | null = null;
  return (chunk) => {
    if (decoder === null) {
      if ((chunk.at(-1) ?? 0) < 0x80) return chunk.toString();
      decoder = new StringDecoder('utf8');
    }
    return decoder.write(chunk);
  };
};

export const createSseReader = (): SseReader => {
  const decode = createDecode();
  let isFirst = true;
  let tooLong = false;
  let events: SentEvent[] = [];
  const parser = createParser({
    onEvent: ({ event = '', data }) => {
      if (data.length > maxEventBytes) tooLong = true;
      else events.push({ event, data });
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') tooLong = true;
    },
    maxBufferSize: maxEventBytes,
  });
  return {
    feed: (chunk) => {
      let text = decode(chunk);
      if (isFirst && text !== '') {
        isFirst = false;
        // A byte order mark is allowed before the first line.
        if (text.startsWith('\uFEFF')) text = text.slice(1);
      }
      events = [];
      parser.feed(text);
      if (tooLong) throw new ProviderFault('bad_answer', 'The provider sent an event that is too long.');
      return events;
    },
  };
};

// The bound of events that are read and not yet released, in UTF-16 units: one socket's read buffer.
const maxBuffered = 65_536;
// The memory of an event beside its data, once it is read.
const eventCost = 256;
// A whole stream: 64,000 tokens at 250 bytes each, comments included.
const maxBytes = 16_000_000;
// An end marker is followed by the end of the answer within a round trip.
const graceMs = 2000;

type Step = IteratorResult<readonly SentEvent[], undefined>;

const lastStep: Step = { done: true, value: undefined };

type StreamReservation = Pick<ReservedBytes, 'bytes' | 'grow' | 'shrink'>;
type StreamExchange = Pick<Exchange, 'awaitFirst' | 'started' | 'pause' | 'resume' | 'release' | 'stop'>;

/**
 * The events of a stream, as many at a step as have come; for one reader. What it took last and what has come since are
 * at most 64 KiB and one event; meanwhile the provider waits.
 */
export class EventStream implements AsyncIterableIterator<readonly SentEvent[], undefined> {
  readonly #reader: SseReader;
  readonly #exchange: StreamExchange;
  readonly #reserved: StreamReservation | undefined;
  #received = 0;
  #waiting: SentEvent[] = [];
  #size = 0;
  /** The bytes of the last step, which its reader uses until it asks for the next. */
  #taken = 0;
  #pending: PromiseWithResolvers<Step> | null = null;
  #ended = false;
  #broken: ProviderFault | null = null;
  #released = false;

  constructor(exchange: StreamExchange, reader: SseReader, reserved?: StreamReservation) {
    this.#exchange = exchange;
    this.#reserved = reserved;
    this.#reader = reader;
    exchange.awaitFirst();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @throws {ProviderFault} once all events that came before it are taken */
  next(): Promise<Step> {
    const value = this.#takeAll();
    if (value.length > 0) {
      if (this.#taken <= maxBuffered) this.#exchange.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.#broken) return Promise.reject(this.#broken);
    if (this.#ended) return Promise.resolve(lastStep);
    const pending = Promise.withResolvers<Step>();
    this.#pending = pending;
    // More may come within this very call.
    this.#exchange.resume();
    return pending.promise;
  }

  /** The model has started to answer: from now on only silence is too long. */
  started(): void {
    this.#exchange.started();
  }

  /** A reader that stops before the end closes the connection. */
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
    this.#received += chunk.length;
    if (this.#received > maxBytes) {
      throw new ProviderFault('bad_answer', `The stream is longer than ${maxBytes} bytes.`);
    }
    const events = this.#reader.feed(chunk);
    // Until the event is whole, its beginning is kept.
    if (events.length === 0) return reserve(this.#reserved, chunk.length);
    this.#reserved?.shrink(this.#reserved.bytes);
    for (const event of events) this.#size += event.data.length + eventCost;
    this.#waiting.push(...events);
    if (this.#pending) this.#hand(this.#pending);
    if (this.#taken + this.#size > maxBuffered) this.#exchange.pause();
  }

  #end(): void {
    this.#ended = true;
    this.#pending?.resolve(lastStep);
    this.#pending = null;
  }

  #fail(fault: ProviderFault): void {
    this.#broken = fault;
    this.#pending?.reject(fault);
    this.#pending = null;
  }

  #hand(pending: PromiseWithResolvers<Step>): void {
    pending.resolve({ done: false, value: this.#takeAll() });
    this.#pending = null;
  }

  #takeAll(): readonly SentEvent[] {
    const value = this.#waiting;
    this.#waiting = [];
    this.#taken = this.#size;
    this.#size = 0;
    return value;
  }
}
