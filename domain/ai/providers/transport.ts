import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { ReservedBytes } from '#lib/byte-budget.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import type { Egress } from '#lib/egress.ts';
import { EgressRefused, explainFailure } from '#lib/egress/failures.ts';
import { type FaultKind, type Outgoing, ProviderFault } from './dialect.ts';
import { EventStream, createSseReader, reserve } from './event-stream.ts';

/** In milliseconds. Connecting has its own 5 s, in the egress. */
export interface Times {
  /** From the request to the first byte of the answer's body; of a stream, to the first that the model says. */
  readonly firstByteMs: number;
  /** Between two parts of it. */
  readonly idleMs: number;
  readonly totalMs: number;
}

export const usualTimes: Times = { firstByteMs: 60_000, idleMs: 60_000, totalMs: 600_000 };

/** The receiver of an answer. After `end` or `fail` nothing more is called. */
interface Receiver {
  readonly head: (status: number, headers: IncomingHttpHeaders) => void;
  /** An error that this or `head` throws ends the exchange. */
  readonly data: (chunk: Buffer) => void;
  readonly end: () => void;
  readonly fail: (fault: ProviderFault) => void;
}

/**
 * Checks all exchanges of a process with one timer: 1,000 streams with one each, restarted at each chunk, cost more.
 */
interface Watch {
  readonly add: (exchange: Exchange) => void;
  readonly remove: (exchange: Exchange) => void;
}

const checkIntervalMs = 250;

const createWatch = (): Watch => {
  const all = new Set<Exchange>();
  let timer: NodeJS.Timeout | undefined;
  const check = (): void => {
    const now = performance.now();
    for (const exchange of all) exchange.check(now);
  };
  return {
    add: (exchange) => {
      all.add(exchange);
      timer ??= setInterval(check, checkIntervalMs).unref();
    },
    remove: (exchange) => {
      all.delete(exchange);
      if (all.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    },
  };
};

const sentences = {
  refused_address: 'The address of the provider may not be reached from here.',
  timeout: 'The provider did not answer in time.',
  unreachable: 'The provider could not be reached.',
  bad_answer: 'The provider answered with something that is not valid HTTP.',
  bad_request: 'The request to the provider is not valid HTTP.',
  cut: 'The connection to the provider broke before the answer was whole.',
} as const satisfies Partial<Record<FaultKind, string>>;

const fault = (kind: keyof typeof sentences, cause?: unknown): ProviderFault =>
  new ProviderFault(kind, sentences[kind], { cause });

/** The meaning of a failed connection; without the host, which only the project's own people may know. */
export const connectionFault = (error: unknown, answered: boolean): ProviderFault => {
  if (error instanceof ProviderFault) return error;
  const known = explainFailure(error, 'the provider');
  if (known instanceof EgressRefused) return fault('refused_address', error);
  if (known.reason === 'timeout') return fault('timeout', error);
  if (known.reason === 'invalid_request') return fault('bad_request', error);
  if (known.reason === 'invalid_answer') return fault('bad_answer', error);
  return fault(answered ? 'cut' : 'unreachable', error);
};

/** The provider never had the request: of a time-out that we set ourselves, later, there is no cause. */
export const isConnectTimeout = ({ kind, cause }: ProviderFault): boolean => kind === 'timeout' && cause !== undefined;

/**
 * One request and its answer, straight on undici's dispatcher: an abort closes the socket in the same turn of the event
 * loop, a slow reader holds the socket back, and a Disconnection is enough where undici's own functions want an
 * AbortSignal.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #receiver: Receiver;
  readonly #times: Times;
  readonly #watch: Watch;
  readonly #signal: Disconnection;
  readonly #deadlineAt: number;
  #dueAt: number;
  #controller: Dispatcher.DispatchController | null = null;
  #answered = false;
  #awaitsFirst = false;
  #over = false;
  #paused = false;

  constructor(receiver: Receiver, times: Times, watch: Watch, signal: Disconnection) {
    this.#receiver = receiver;
    this.#times = times;
    this.#watch = watch;
    this.#signal = signal;
    const now = performance.now();
    this.#deadlineAt = now + times.totalMs;
    this.#dueAt = Math.min(now + times.firstByteMs, this.#deadlineAt);
  }

  start(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): void {
    this.#watch.add(this);
    this.#signal.addEventListener('abort', this.#disconnected);
    if (this.#signal.aborted) this.#disconnected();
    else dispatcher.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, this);
  }

  /** Ends it from our side; the connection is closed at once. */
  stop(reason: ProviderFault): void {
    if (this.#over) return;
    this.#close();
    this.#controller?.abort(reason);
    this.#receiver.fail(reason);
  }

  /** In a stream one byte is not enough: comments and an empty beginning are no output of the model. */
  awaitFirst(): void {
    this.#awaitsFirst = true;
  }

  /** The model has started to answer. */
  started(): void {
    if (!this.#awaitsFirst) return;
    this.#awaitsFirst = false;
    this.#extend();
  }

  /** Nothing more is read until `resume`; meanwhile the provider waits, which is not its time-out. */
  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#extend(this.#awaitsFirst ? this.#times.firstByteMs : this.#times.idleMs);
    this.#controller?.resume();
  }

  /**
   * The rest does not matter to anybody: it may come within `graceMs`, then the connection is kept for the next
   * request.
   */
  release(graceMs: number): void {
    this.#signal.removeEventListener('abort', this.#disconnected);
    this.resume();
    this.#dueAt = Math.min(this.#dueAt, performance.now() + graceMs);
  }

  check(now: number): void {
    const due = this.#paused ? this.#deadlineAt : this.#dueAt;
    if (now >= due) this.stop(fault('timeout'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(fault('cut'));
  }

  onResponseStart(_controller: unknown, status: number, headers: IncomingHttpHeaders): void {
    // An interim answer (RFC 9110, 15.2).
    if (this.#over || status < 200) return;
    this.#answered = true;
    if (status < 300 || status >= 400) this.#deliver(() => this.#receiver.head(status, headers));
    else this.stop(new ProviderFault('bad_answer', 'The provider answered with a redirect.', { status }));
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    if (this.#over) return;
    if (!this.#awaitsFirst) this.#extend();
    this.#deliver(() => this.#receiver.data(chunk));
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#close();
    this.#receiver.end();
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#over) return;
    this.#close();
    this.#receiver.fail(connectionFault(error, this.#answered));
  }

  readonly #disconnected = (): void => this.stop(fault('cut'));

  #deliver(take: () => void): void {
    try {
      take();
    } catch (error) {
      this.stop(connectionFault(error, true));
    }
  }

  /** Its deadline is so long from now, but never beyond that of the whole exchange. */
  #extend(ms: number = this.#times.idleMs): void {
    this.#dueAt = Math.min(performance.now() + ms, this.#deadlineAt);
  }

  #close(): void {
    this.#over = true;
    this.#watch.remove(this);
    this.#signal.removeEventListener('abort', this.#disconnected);
  }
}

interface Call {
  /** Aborted: the connection is closed at once, and a fault of kind `cut` comes. */
  readonly signal: Disconnection;
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
type Opened =
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

/** Where the rest of an answer goes, from its headers on. */
type Sink = Pick<Receiver, 'data' | 'end' | 'fail'>;

/** Collects a whole answer, of at most `max` bytes. */
const collect = (
  { reserved }: Call,
  { status, headers, max }: Omit<WholeAnswer, 'bytes'> & { readonly max: number },
  { resolve, reject }: { readonly resolve: (answer: WholeAnswer) => void; readonly reject: Receiver['fail'] },
): Sink => {
  // Before any of it is read, where the provider says how long it is.
  requireWithin(Number(headers['content-length'] ?? 0), max);
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    data: (chunk) => {
      size += chunk.length;
      requireWithin(size, max);
      reserve(reserved, chunk.length);
      chunks.push(chunk);
    },
    end: () => resolve({ status, headers, bytes: Buffer.concat(chunks) }),
    fail: reject,
  };
};

/** Sends a request; `sinkFor` decides by the headers where the rest of the answer goes. */
const exchangeWith = (
  start: (receiver: Receiver) => Exchange,
  reject: (fault: ProviderFault) => void,
  sinkFor: (status: number, headers: IncomingHttpHeaders, exchange: Exchange) => Sink,
): void => {
  let sink: Sink = { data: () => undefined, end: () => undefined, fail: reject };
  const exchange = start({
    head: (status, headers) => {
      sink = sinkFor(status, headers, exchange);
    },
    data: (chunk) => sink.data(chunk),
    end: () => sink.end(),
    fail: (fault) => sink.fail(fault),
  });
};

export const createTransport = (egress: Pick<Egress, 'check' | 'dispatcher'>, times: Times = usualTimes): Transport => {
  const start = createStart(egress, times);
  return {
    send: (outgoing, call) => {
      const answer = Promise.withResolvers<WholeAnswer>();
      const { maxBytes = maxAnswerBytes } = call;
      exchangeWith(
        (receiver) => start(outgoing, call, receiver),
        answer.reject,
        (status, headers) => collect(call, { status, headers, max: isGood(status) ? maxBytes : maxErrorBytes }, answer),
      );
      return answer.promise;
    },
    openStream: (outgoing, call) => {
      const { promise, resolve, reject } = Promise.withResolvers<Opened>();
      const failed = { resolve: (answer: WholeAnswer) => resolve({ ok: false, ...answer }), reject };
      exchangeWith(
        (receiver) => start(outgoing, call, receiver),
        reject,
        (status, headers, exchange) => {
          if (!isGood(status)) return collect(call, { status, headers, max: maxErrorBytes }, failed);
          requireEventStream(headers);
          const events = new EventStream(exchange, createSseReader(), call.reserved);
          resolve({ ok: true, headers, events });
          return events.sink;
        },
      );
      return promise;
    },
  };
};
