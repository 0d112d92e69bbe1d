import { setImmediate as nextLoopTurn } from 'node:timers/promises';
import { ServiceError } from '#lib/errors.ts';
import type { ChatPiece } from '../chat.ts';
import { tokensIn } from './estimate.ts';
import type { StreamEnd, TimedPiece } from './types.ts';
import { ProviderFault, type SentEvent, type StreamReader } from '../providers/dialect.ts';
import type { EventStream } from '../providers/event-stream.ts';
import type { RunningCall, Used } from './running-call.ts';

type Step = IteratorResult<readonly TimedPiece[], undefined>;

const lastStep: Step = { done: true, value: undefined };

/**
 * Events of one stream that are parsed before other requests are served. A model server that sends as fast as it can
 * gives hundreds at a time, which took 8 to 49 ms; ordinary ones give one or a few, which cost no extra turn of the
 * event loop.
 */
const maxPerBatch = 50;
const maxBatchMs = 2;

const budgetExceeded = (): ServiceError =>
  new ServiceError(
    'budget_exceeded',
    "The answer went on beyond what the project's budget for AI had granted, and was broken off.",
  );

/** An answer that is nested too deep to be walked is the provider's fault, not ours. */
const faultOf = (error: unknown): Error => {
  if (error instanceof RangeError) return new ProviderFault('bad_answer', 'An event is nested too deep.');
  return error instanceof Error ? error : new Error('an event could not be read', { cause: error });
};

const lengthOf = ({ text, toolCalls, unshown = 0 }: ChatPiece): number => {
  let length = text.length + unshown;
  for (const { name = '', arguments: more = '' } of toolCalls) length += name.length + more.length;
  return length;
};

type ReadCall = Pick<RunningCall, 'used' | 'abort' | 'route' | 'elapsed' | 'isWithin' | 'succeed' | 'fail'>;

/**
 * A stream's pieces as they come, one step for each part of the answer; for one reader, who goes on at its own pace.
 */
export class PieceReader implements AsyncIterableIterator<readonly TimedPiece[], undefined> {
  readonly #call: ReadCall;
  readonly #events: EventStream;
  readonly #reader: StreamReader;
  /** Events that have come and are left for later batches. */
  #unparsed: readonly SentEvent[] = [];
  /** The last batch was as large as one may be: other requests are served before the next. */
  #isFull = false;
  /** Read and not given yet. */
  #waiting: TimedPiece[] = [];
  /** The step after the pieces: the stream's end, or its fault. */
  #fault: Error | null = null;
  #characters = 0;
  #ttftMs: number | null = null;
  #end: StreamEnd | null = null;

  constructor(call: ReadCall, events: EventStream, reader: StreamReader) {
    this.#call = call;
    this.#events = events;
    this.#reader = reader;
    call.used = () => this.#used();
  }

  /**
   * Reads until something has come: what fails until then fails the call, not the stream.
   * @throws {ProviderFault}
   */
  async begin(): Promise<void> {
    while (this.#waiting.length === 0 && this.#end === null) {
      if (this.#fault !== null) throw this.#fault;
      await this.#advance();
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    try {
      return await this.#next();
    } catch (error) {
      this.#close();
      throw this.#call.fail(error);
    }
  }

  /** A reader that stops early has left. */
  return(): Promise<Step> {
    if (this.#end === null) this.#call.abort.abort('left');
    this.#close();
    return Promise.resolve(lastStep);
  }

  end(): StreamEnd {
    if (this.#end === null) throw new Error('the stream has not ended well');
    return this.#end;
  }

  async #next(): Promise<Step> {
    for (;;) {
      if (this.#waiting.length > 0) return this.#give();
      if (this.#fault !== null) throw this.#fault;
      if (this.#end !== null) return lastStep;
      await this.#advance();
    }
  }

  async #advance(): Promise<void> {
    if (this.#isFull) await this.#yield();
    if (this.#unparsed.length > 0) return this.#takeBatch();
    if (this.#reader.ended) return this.#finish();
    const step = await this.#events.next();
    if (step.done) return this.#finish();
    this.#unparsed = step.value;
    this.#takeBatch();
  }

  async #yield(): Promise<void> {
    this.#isFull = false;
    await nextLoopTurn();
    // The rest of a call that was aborted meanwhile is dropped; the events end with the fault of that.
    if (this.#call.abort.aborted) this.#unparsed = [];
  }

  #give(): Step {
    const value = this.#waiting;
    this.#waiting = [];
    // An answer that has come to its end is not broken off: nothing would be saved by that.
    const isOpen = !this.#reader.complete;
    if (isOpen && !this.#call.isWithin(this.#reader.usage, this.#characters)) throw budgetExceeded();
    return { done: false, value };
  }

  #takeBatch(): void {
    const elapsedMs = this.#call.elapsed();
    try {
      this.#parseBatch(elapsedMs);
      if (this.#reader.began) this.#events.started();
    } catch (error) {
      // The pieces before the fault are returned first.
      this.#fault = faultOf(error);
    }
  }

  #parseBatch(elapsedMs: number): void {
    let parsed = 0;
    for (const event of this.#unparsed) {
      parsed += 1;
      const piece = this.#reader.take(event);
      if (piece !== null) this.#keep(piece, elapsedMs);
      this.#isFull = parsed === maxPerBatch || this.#call.elapsed() - elapsedMs >= maxBatchMs;
      if (this.#isFull) break;
    }
    this.#unparsed = this.#unparsed.slice(parsed);
  }

  #keep(piece: ChatPiece, elapsedMs: number): void {
    const length = lengthOf(piece);
    if (length > 0) this.#ttftMs ??= elapsedMs;
    this.#characters += length;
    this.#waiting.push({ ...piece, elapsedMs });
  }

  #used(): Used {
    return { reported: this.#reader.usage, completionTokens: tokensIn(this.#characters), ttftMs: this.#ttftMs };
  }

  /** The provider has said its last word: was it the one that it should be? */
  #finish(): void {
    if (!this.#reader.complete) throw new ProviderFault('cut', 'The stream ended without its end marker.');
    // A server that does not close after its end marker is not waited for.
    if (this.#reader.ended) this.#events.release();
    const { usage, tokensSource, latencyMs } = this.#call.succeed(this.#used());
    const { provider, model } = this.#call.route;
    const ttftMs = this.#ttftMs ?? latencyMs;
    const finish = this.#reader.finish ?? 'stop';
    this.#end = { provider, model, finish, usage, tokensSource, latencyMs, ttftMs };
  }

  #close(): void {
    void this.#events.return();
  }
}
