import {
  type ResponseHead,
  type ResponseKind,
  responseHead,
  resultOf,
  wholeResponse,
} from '#domain/functions/response.ts';
import { type AnswerHead, AnswerStopped, type AnswerWriter, windowBytes } from '#queues/answer-streams.ts';
import { CallFault, maxResultBytes } from '../../runtimes/runtime.ts';

const mib = 1024 * 1024;
/** An answer that goes out while its run goes on. */
const maxSentBytes = 100 * mib;

/** The way of the body of a response: it goes to a caller, is kept as the result, or is not wanted (HEAD). */
export type AnswerMode = 'send' | 'keep' | 'drop';

export interface AnswerSinkOptions {
  readonly mode: AnswerMode;
  /** Null: no caller waits. */
  readonly open: () => Promise<AnswerWriter | null>;
  /** The answer is over before its end: the run has no purpose any more. */
  readonly onStopped: () => void;
}

/** Why an answer did not come to its end. */
export type AnswerFailure = 'left' | 'broken' | 'too_large';

const faults = {
  left: () => new CallFault('AbortError', 'The client has left.'),
  broken: () => new CallFault('AbortError', 'The answer cannot be sent on: the connection to the caller broke off.'),
  too_large: (max: number) => new CallFault('RangeError', `The response is larger than ${max / mib} MB.`),
} as const;

const sentHead = ({ status, headers }: ResponseHead): AnswerHead => ({
  status,
  headers: headers.map(([name, value]) => [name, value]),
});

interface WholeAnswer {
  readonly head: AnswerHead;
  readonly body: Buffer;
}

const valueAnswer = (text: string): WholeAnswer => ({
  head: { status: 200, headers: [['content-type', 'application/json; charset=utf-8']] },
  body: Buffer.from(text),
});

const responseAnswer = (text: string, form: 'text' | 'base64'): WholeAnswer => {
  const response = wholeResponse(text, form);
  if (typeof response === 'string') throw new CallFault('TypeError', `The response ${response}.`);
  return { head: sentHead(response.head), body: response.body };
};

/** The response of one run that comes in parts. User code says what is in it, and none of that is believed. */
export class AnswerSink {
  readonly #options: AnswerSinkOptions;
  readonly #over = Promise.withResolvers<boolean>();
  #mode: AnswerMode;
  #writer: AnswerWriter | null = null;
  #head: ResponseHead | null = null;
  /** The beginning, which becomes the result when it turns out that no caller waits. */
  #kept: Buffer[] = [];
  #bytes = 0;
  #hasEnded = false;
  failure: AnswerFailure | null = null;

  constructor(options: AnswerSinkOptions) {
    this.#options = options;
    this.#mode = options.mode;
  }

  /** Whether the client is gone, once that is known; false when the run is over first. */
  get gone(): Promise<boolean> {
    return this.#over.promise;
  }

  /** @throws {CallFault} */
  async start(status: unknown, headers: unknown): Promise<void> {
    if (this.#head !== null) throw new CallFault('Error', 'The response has begun already.');
    const head = responseHead(status, headers);
    if (typeof head === 'string') throw new CallFault('TypeError', `The response ${head}.`);
    this.#head = head;
    if (this.#mode !== 'send') return;
    this.#writer = await this.#options.open();
    if (this.#writer === null) this.#mode = 'keep';
    else await this.#follow(this.#writer, head);
  }

  /** @throws {CallFault} when it is too much, or nobody is there for it */
  async write(chunk: Buffer): Promise<void> {
    if (this.#head === null || this.#hasEnded) throw new CallFault('Error', 'There is no response to write to.');
    this.#bytes += chunk.length;
    if (this.#mode === 'drop') return;
    const max = this.#mode === 'send' ? maxSentBytes : maxResultBytes;
    if (this.#bytes > max) throw this.#fail('too_large', faults.too_large(max));
    if (this.#mode === 'keep' || this.#bytes <= windowBytes) this.#kept.push(chunk);
    else this.#kept = [];
    if (this.#mode === 'send') await this.#pass((writer) => writer.write(chunk));
  }

  /**
   * Sends an answer that is known before its run is over. A caller who does not wait for it gets the result of the run,
   * and one who leaves changes nothing: the work that goes on is not for the answer.
   * @throws {CallFault} when the response is not valid
   */
  async early(text: string, form: 'text' | 'base64' | null): Promise<void> {
    if (this.#mode !== 'send' || this.#head !== null || this.#hasEnded) return;
    const answer = form === null ? valueAnswer(text) : responseAnswer(text, form);
    this.#hasEnded = true;
    this.#writer = await this.#options.open();
    try {
      await this.#writer?.start(answer.head);
      await this.#writer?.write(answer.body);
      await this.#writer?.end();
    } catch (error) {
      if (!(error instanceof AnswerStopped)) throw error;
    }
  }

  /** @throws {CallFault} */
  async end(): Promise<void> {
    if (this.#head === null || this.#hasEnded) throw new CallFault('Error', 'There is no response to end.');
    if (this.#mode === 'send') await this.#pass((writer) => writer.end());
    this.#hasEnded = true;
  }

  /** The run is over. */
  close(): void {
    this.#over.resolve(false);
    this.#writer?.close();
  }

  /** The response as the result of the run; null when there is no whole one. */
  result(): { readonly json: string; readonly kind: ResponseKind } | null {
    if (this.#head === null || !this.#hasEnded || this.failure !== null) return null;
    return resultOf(this.#head, this.#mode === 'send' ? null : Buffer.concat(this.#kept));
  }

  async #follow(writer: AnswerWriter, head: ResponseHead): Promise<void> {
    void writer.stopped.then((why) => (why === 'nobody' ? undefined : this.#stop(why)));
    await this.#pass(() => writer.start(sentHead(head)));
  }

  async #pass(send: (writer: AnswerWriter) => Promise<void>): Promise<void> {
    try {
      if (this.#writer !== null) await send(this.#writer);
    } catch (error) {
      if (!(error instanceof AnswerStopped)) throw error;
      if (error.why !== 'nobody') throw this.#fail(error.why, faults[error.why]());
      this.#keepInstead();
    }
  }

  /** The caller waits no more: the response becomes the result of a job that goes on without it. */
  #keepInstead(): void {
    this.#mode = 'keep';
    if (this.#bytes > windowBytes) throw this.#fail('too_large', faults.too_large(maxResultBytes));
  }

  #stop(why: AnswerFailure): void {
    if (this.#hasEnded) return;
    this.failure ??= why;
    this.#over.resolve(true);
    this.#options.onStopped();
  }

  #fail(why: AnswerFailure, fault: CallFault): CallFault {
    this.failure ??= why;
    return fault;
  }
}
