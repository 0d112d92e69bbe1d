import { Readable } from 'node:stream';
import { setTimeout as rest } from 'node:timers/promises';
import type { ChatStream, StreamEnd, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { explain } from '../errors.ts';

/** How a chat is written as server-sent events. */
export interface StreamForm {
  /** What came since the last step; empty when there is nothing to tell of it. */
  readonly pieces: (pieces: readonly TimedPiece[]) => string;
  readonly end: (end: StreamEnd) => string;
  /** It broke off: the status line is long gone. */
  readonly broken: (error: ServiceError) => string;
}

export interface StreamOptions {
  readonly log: Log;
  /** How long it may be quiet. */
  readonly keepAliveMs?: number;
}

const usualKeepAliveMs = 15_000;
const keepAlive = ': keep-alive\n\n';
// A write costs as much as what is done for several words: those of a provider that is quicker than anybody reads go out
// some at a time. Of others each goes out as it comes.
const quickMs = 1;
const restMs = 2;

/**
 * A chat on its way to the client. It takes the next step when what it has was read, so a slow reader slows down the
 * provider; what came at once goes out at once, in one write.
 */
class ChatEvents extends Readable {
  readonly #stream: ChatStream;
  readonly #steps: AsyncIterator<readonly TimedPiece[]>;
  readonly #form: StreamForm;
  readonly #log: Log;
  readonly #quiet: NodeJS.Timeout;
  #taking = false;
  #ended = false;
  /** The last step came as soon as it was asked for. */
  #isQuick = false;

  constructor(stream: ChatStream, form: StreamForm, { log, keepAliveMs = usualKeepAliveMs }: StreamOptions) {
    // Text stays text, and no more than a step waits to be read.
    super({ encoding: 'utf8', highWaterMark: 1 });
    this.#stream = stream;
    this.#steps = stream.pieces[Symbol.asyncIterator]();
    this.#form = form;
    this.#log = log;
    this.#quiet = setInterval(() => this.#sayAlive(), keepAliveMs);
  }

  /** Only to a client that has read all that there was: to others it would pile up. */
  #sayAlive(): void {
    if (this.#taking && this.readableLength === 0) this.push(keepAlive);
  }

  async #next(): Promise<string> {
    for (;;) {
      const step = await this.#steps.next();
      this.#ended = step.done === true;
      const text = step.done === true ? this.#form.end(this.#stream.end()) : this.#form.pieces(step.value);
      if (text !== '' || this.#ended) return text;
    }
  }

  #break(thrown: unknown): string {
    this.#ended = true;
    // Who has left is told nothing, and the fault is his own.
    return this.destroyed ? '' : this.#form.broken(explain(thrown, this.#log));
  }

  async #take(): Promise<void> {
    if (this.#isQuick) await rest(restMs);
    const asked = performance.now();
    const text = await this.#next().catch((error: unknown) => this.#break(error));
    this.#taking = false;
    if (this.destroyed) return;
    this.#isQuick = performance.now() - asked < quickMs;
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

  /** Nobody reads on. */
  #leave(): void {
    this.#steps.return?.().catch(() => undefined);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#quiet);
    if (!this.#ended) this.#leave();
    done(error);
  }
}

/** The body of an answer that goes on as long as the model speaks. */
export const chatEvents = (stream: ChatStream, form: StreamForm, options: StreamOptions): Readable =>
  new ChatEvents(stream, form, options);
