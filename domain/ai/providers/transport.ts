import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Departure } from '#lib/departure.ts';
import type { ReservedBytes } from '#lib/byte-budget.ts';
import type { Egress } from '#lib/egress.ts';
import { type Outgoing, ProviderFault } from './dialect.ts';
import { EventStream } from './event-stream.ts';
import { reserve } from './reserve-bytes.ts';
import { Exchange, type Receiver, type Times, connectionFault, createWatch, usualTimes } from './exchange.ts';
import { createSseReader } from './sse.ts';

export interface Call {
  /** Aborted: the connection is closed at once, and a fault of kind `cut` comes. */
  readonly signal: Departure;
  /** Where the bytes of the answer are counted while they are in memory; left out: nowhere. */
  readonly reserved?: Pick<ReservedBytes, 'bytes' | 'grow' | 'shrink'>;
  /** Bytes of an answer that is asked for whole. Left out: 4 MB, far above any chat. */
  readonly maxBytes?: number;
}

/** An answer that is whole. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** A stream has started, or the provider answered with an error. */
export type Opened =
  | { readonly ok: true; readonly headers: IncomingHttpHeaders; readonly events: EventStream }
  | ({ readonly ok: false } & WholeAnswer);

/** Talks to providers over the one way out. Tries nothing twice. All throw ProviderFaults. */
export interface Transport {
  /** Any status but a redirect. */
  readonly send: (outgoing: Outgoing, call: Call) => Promise<WholeAnswer>;
  /** Resolves with the headers of a stream, or with the whole of an answer that is no 2xx. */
  readonly openStream: (outgoing: Outgoing, call: Call) => Promise<Opened>;
}

const maxAnswerBytes = 4_000_000;
/**
 * The characters of an error that are shown; errors of the six providers have some kilobytes with all their details.
 */
const maxErrorBytes = 65_536;

const isGood = (status: number): boolean => status >= 200 && status < 300;

const requireWithin = (bytes: number, max: number): void => {
  if (bytes > max) throw new ProviderFault('bad_answer', `The answer is longer than ${max} bytes.`);
};

/** The parts of a body, bounded. */
const createBody = ({ reserved }: Call) => {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    /** Before any of it is read, where the provider says how long it is. */
    expect: (headers: IncomingHttpHeaders, max: number): void =>
      requireWithin(Number(headers['content-length'] ?? 0), max),
    add: (chunk: Buffer, max: number): void => {
      size += chunk.length;
      requireWithin(size, max);
      reserve(reserved, chunk.length);
      chunks.push(chunk);
    },
    bytes: (): Buffer => Buffer.concat(chunks),
  };
};

const requireEventStream = (headers: IncomingHttpHeaders): void => {
  // Servers of the project's own may name no type, or text/plain.
  if (!String(headers['content-type']).includes('json')) return;
  throw new ProviderFault('bad_answer', 'The provider answered with JSON where a stream was asked for.');
};

type Start = (outgoing: Outgoing, call: Call, receiver: Receiver) => Exchange;

const createStart = (egress: Pick<Egress, 'check' | 'dispatcher'>, times: Times): Start => {
  const watch = createWatch();
  const dispatcher: Dispatcher = egress.dispatcher('platform');
  return (outgoing, call, receiver) => {
    const exchange = new Exchange(receiver, times, watch, call.signal);
    try {
      const url = egress.check(outgoing.url);
      const { method, headers, body } = outgoing;
      exchange.start(dispatcher, { origin: url.origin, path: url.pathname + url.search, method, headers, body });
    } catch (error) {
      exchange.stop(connectionFault(error, false));
    }
    return exchange;
  };
};

const sendWith = (start: Start, outgoing: Outgoing, call: Call): Promise<WholeAnswer> => {
  const { promise, resolve, reject } = Promise.withResolvers<WholeAnswer>();
  const body = createBody(call);
  let max = call.maxBytes ?? maxAnswerBytes;
  let status = 0;
  let headers: IncomingHttpHeaders = {};
  start(outgoing, call, {
    head: (answered, answerHead) => {
      [status, headers] = [answered, answerHead];
      if (!isGood(status)) max = maxErrorBytes;
      body.expect(headers, max);
    },
    data: (chunk) => body.add(chunk, max),
    end: () => resolve({ status, headers, bytes: body.bytes() }),
    fail: reject,
  });
  return promise;
};

/** Where the rest of an answer goes, from its headers on. */
type Sink = Pick<Receiver, 'data' | 'end' | 'fail'>;

const openWith = (start: Start, outgoing: Outgoing, call: Call): Promise<Opened> => {
  const { promise, resolve, reject } = Promise.withResolvers<Opened>();
  const errorSink = (status: number, headers: IncomingHttpHeaders): Sink => {
    const body = createBody(call);
    return {
      data: (chunk) => body.add(chunk, maxErrorBytes),
      end: () => resolve({ ok: false, status, headers, bytes: body.bytes() }),
      fail: reject,
    };
  };
  const streamSink = (headers: IncomingHttpHeaders): Sink => {
    requireEventStream(headers);
    const events = new EventStream(exchange, createSseReader(), call.reserved);
    resolve({ ok: true, headers, events });
    return events.sink;
  };
  let sink: Sink = { data: () => undefined, end: () => undefined, fail: reject };
  const exchange = start(outgoing, call, {
    head: (status, headers) => {
      sink = isGood(status) ? streamSink(headers) : errorSink(status, headers);
    },
    data: (chunk) => sink.data(chunk),
    end: () => sink.end(),
    fail: (fault) => sink.fail(fault),
  });
  return promise;
};

export const createTransport = (egress: Pick<Egress, 'check' | 'dispatcher'>, times: Times = usualTimes): Transport => {
  const start = createStart(egress, times);
  return {
    send: (outgoing, call) => sendWith(start, outgoing, call),
    openStream: (outgoing, call) => openWith(start, outgoing, call),
  };
};
