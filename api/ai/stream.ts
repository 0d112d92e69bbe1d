import { Readable } from 'node:stream';
import { setTimeout as rest } from 'node:timers/promises';
import type { ChatStream, StreamEnd, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { explain } from '../errors.ts';

/** How a chat is written as server-sent events. */
export interface StreamForm extends BrokenForm {
  /** The pieces since the last step; empty when there is nothing to send of it. */
  readonly pieces: (pieces: readonly TimedPiece[]) => string;
  readonly end: (end: StreamEnd) => string;
}

interface BrokenForm {
  /** It broke off: the status line is long gone. */
  readonly broken: (error: ServiceError) => string;
}

/** The state of a stream that may begin before its model answers. */
export interface OpeningForm extends BrokenForm {
  readonly of: (stream: ChatStream) => StreamForm;
}

export interface StreamOptions {
  readonly log: Log;
  /** How long it may be quiet. */
  readonly keepAliveMs?: number;
}

const usualKeepAliveMs = 15_000;
const keepAlive = ': keep-alive\n\n';
// A write costs as much as what is done for several words: those of a provider that is quicker than anybody reads go
// out some at a time. Of others each goes out as it comes.
const quickMs = 1;
const restMs = 2;

/** A stream that has started. */
interface StartedStream {
  readonly stream: ChatStream;
  readonly steps: AsyncIterator<readonly TimedPiece[]>;
  readonly form: StreamForm;
}

const startedStream = (stream: ChatStream, form: StreamForm): StartedStream => ({
  stream,
  steps: stream.pieces[Symbol.asyncIterator](),
  form,
});

const closeUpstream = ({ steps }: StartedStream): unknown => steps.return?.().catch(() => undefined);

/**
 * A chat on its way to the client. It takes the next step when what it has was read, so a slow reader slows down the
 * provider; what came at once goes out at once, in one write.
 */
class ChatEvents extends Readable {
  #started: StartedStream | null;
  readonly #opening: Promise<StartedStream>;
  readonly #form: BrokenForm;
  readonly #log: Log;
  readonly #quiet: NodeJS.Timeout;
  #taking = false;
  #ended = false;
  /** The last step came as soon as it was asked for. */
  #isQuick = false;

  constructor(
    started: StartedStream | Promise<StartedStream>,
    form: BrokenForm,
    { log, keepAliveMs = usualKeepAliveMs }: StreamOptions,
  ) {
    // Text stays text, and no more than a step waits to be read.
    super({ encoding: 'utf8', highWaterMark: 1 });
    this.#started = started instanceof Promise ? null : started;
    this.#opening = Promise.resolve(started);
    this.#form = form;
    this.#log = log;
    this.#quiet = setInterval(() => this.#sayAlive(), keepAliveMs);
  }

  /** Only to a client that has read all that there was: to others it would pile up. */
  #sayAlive(): void {
    if (this.#taking && this.readableLength === 0) this.push(keepAlive);
  }

  async #next(): Promise<string> {
    const { steps, stream, form } = (this.#started ??= await this.#opening);
    for (;;) {
      const step = await steps.next();
      this.#ended = step.done === true;
      const text = step.done === true ? form.end(stream.end()) : form.pieces(step.value);
      if (text !== '' || this.#ended) return text;
    }
  }

  #break(thrown: unknown): string {
    this.#ended = true;
    // A client that has left gets no answer, and the fault is its own.
    return this.destroyed ? '' : this.#form.broken(explain(thrown, this.#log));
  }

  async #take(): Promise<void> {
    if (this.#isQuick) await rest(restMs);
    const startedAt = performance.now();
    const text = await this.#next().catch((error: unknown) => this.#break(error));
    this.#taking = false;
    if (this.destroyed) return;
    this.#isQuick = performance.now() - startedAt < quickMs;
    this.#quiet.refresh();
    this.push(text);
    if (this.#ended) this.push(null);
  }

  override _read(): void {
    // A keep-alive went out while a step is still awaited.
    if (this.#taking) return;
    this.#taking = true;
    void this.#take();
  }

  /** The client reads no further. */
  #leave(): void {
    if (this.#started === null) this.#opening.then(closeUpstream).catch(() => undefined);
    else closeUpstream(this.#started);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#quiet);
    if (!this.#ended) this.#leave();
    done(error);
  }
}

/** The body of an answer that goes on as long as the model speaks. */
export const chatEvents = (stream: ChatStream, form: StreamForm, options: StreamOptions): Readable =>
  new ChatEvents(startedStream(stream, form), form, options);

/**
 * The same for a stream that is being opened. After `keepAliveMs` of silence it starts without it, with a keep-alive
 * comment: proxies on the way end connections that are silent for a minute, and models may think for longer.
 * @throws what `opening` throws until then; later errors stand inside the stream
 */
export const openingEvents = async (
  opening: Promise<ChatStream>,
  form: OpeningForm,
  options: StreamOptions,
): Promise<Readable> => {
  const { promise: silence, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(resolve, options.keepAliveMs ?? usualKeepAliveMs, null);
  try {
    const stream = await Promise.race([opening, silence]);
    if (stream !== null) return chatEvents(stream, form.of(stream), options);
  } finally {
    clearTimeout(timer);
  }
  const started = opening.then((stream) => startedStream(stream, form.of(stream)));
  // The client of the stream gets the error.
  started.catch(() => undefined);
  const events = new ChatEvents(started, form, options);
  events.push(keepAlive);
  return events;
};
