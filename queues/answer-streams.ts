import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { JobOutcome } from './define.ts';
import type { Subscriber } from './signals.ts';

/**
 * Answers that go to their caller while the run goes on. Their parts are entries of the reply stream of the API process
 * whose caller waits (see replies.ts), in order and numbered; that process says over pub/sub how much its client has
 * read. A worker sends no more than `windowBytes` beyond that, so neither Redis nor the API ever holds more of one
 * answer. An answer is whole when its `end` has come after all the parts before it: whatever dies in between leaves it
 * without one, and the client sees its connection break.
 */
export const windowBytes = 512 * 1024;
/** A client that reads slowly is reported in steps, and each answer every 2 s: a lost report is made good by the next. */
const reportEveryBytes = 128 * 1024;
const reportEveryMs = 2000;
/** An API process that is silent for so long is dead, or its client's answer is. */
const silenceMs = 20_000;
/** A worker that receives so many reports in a row not at all is dead; one that reconnects misses fewer. */
const maxUnheard = 3;
const streamTtlSeconds = 3600;
const streamLength = 10_000;
/**
 * Chunks that are shorter wait for the one before them and go on together: each part costs Redis and the API process
 * the same, and the stream, which all callers of that process share, keeps a number of parts.
 */
const wholePartBytes = 16 * 1024;

const partSchema = z.object({
  id: z.string(),
  kind: z.enum(['head', 'chunk', 'end']),
  /** Counted from 0 for the head. */
  number: z.int().nonnegative(),
  /** The channel on which the worker hears how much was read. */
  reports: z.string(),
  head: z.object({ status: z.int(), headers: z.array(z.tuple([z.string(), z.string()])) }).optional(),
});
type PartHeader = z.output<typeof partSchema>;
export type AnswerHead = NonNullable<PartHeader['head']>;

/** One part as it was read from the reply stream. */
export interface AnswerPart extends PartHeader {
  readonly data: Buffer;
}

/** An unreadable part (of another version of plinth) is none. */
export const partOf = (header: string, data: Buffer): AnswerPart | null => {
  const parsed = partSchema.safeParse(JSON.parse(header));
  return parsed.success ? { ...parsed.data, data } : null;
};

/**
 * `reading`: so many bytes were read. `left`: the client is gone. `nobody`: no caller waits any more, since the time
 * that it was ready to wait has passed; the run goes on.
 */
const reportSchema = z.object({ id: z.string(), read: z.number(), state: z.enum(['reading', 'left', 'nobody']) });
type Report = z.output<typeof reportSchema>;

/** @returns whether anybody received it; null when that is not known */
export type SendReport = (channel: string, report: Report) => Promise<boolean | null>;

export const reportsOver =
  (redis: Redis): SendReport =>
  (channel, report) =>
    redis.publish(channel, JSON.stringify(report)).then(
      (receivers) => receivers > 0,
      () => null,
    );

/** The answer broke off: its client must not take it for a whole one. */
class AnswerBroken extends Error {
  override readonly name = 'AnswerBroken';
}

/** The body of an answer in the API process, at the pace of its client. */
export class AnswerStream extends Readable {
  readonly head: AnswerHead;
  /** Bytes that it holds at most, for the budget of answers. */
  readonly heldLength = windowBytes;
  readonly #id: string;
  readonly #channel: string;
  readonly #report: SendReport;
  readonly #timer: NodeJS.Timeout;
  readonly #waiting: Buffer[] = [];
  #wanted = false;
  #next = 1;
  #read = 0;
  #reported = 0;
  #hasEnd = false;
  #isBroken = false;
  #unheard = 0;

  constructor({ id, reports, head }: AnswerPart & { readonly head: AnswerHead }, report: SendReport) {
    // One chunk waits beside those that are counted here.
    super({ highWaterMark: 1 });
    [this.#id, this.#channel, this.#report, this.head] = [id, reports, report, head];
    this.#timer = setInterval(() => void this.#ask(), reportEveryMs).unref();
    void this.#say('reading');
  }

  async #ask(): Promise<void> {
    const isHeard = await this.#say('reading');
    this.#unheard = isHeard === false ? this.#unheard + 1 : 0;
    if (this.#unheard >= maxUnheard && !this.#hasEnd) this.#break();
  }

  /** Parts come in order; one that came before is a command that was sent again, and one that is missing is lost. */
  receive({ kind, number, data }: AnswerPart): void {
    if (number < this.#next || this.#hasEnd || this.destroyed) return;
    if (number > this.#next) return this.#break();
    this.#next += 1;
    if (kind === 'end') this.#hasEnd = true;
    else this.#waiting.push(data);
    this.#flow();
  }

  /** The run is over: what has come goes out, and no more is to be expected. */
  runEnded({ status }: Pick<JobOutcome, 'status'>): void {
    if (this.#hasEnd || this.destroyed) return;
    // After a gap the row may be read before the last parts.
    if (status === 'succeeded') setTimeout(() => this.#hasEnd || this.#break(), reportEveryMs).unref();
    else this.#break();
  }

  override _read(): void {
    this.#wanted = true;
    this.#flow();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearInterval(this.#timer);
    // To a worker that has ended the answer it says nothing new.
    void this.#say(this.#hasEnd && this.#waiting.length === 0 ? 'reading' : 'left');
    done(error);
  }

  #break(): void {
    this.#isBroken = true;
    this.#flow();
  }

  #flow(): void {
    while (this.#wanted) {
      const chunk = this.#waiting.shift();
      if (chunk === undefined) return this.#atTheEnd();
      this.#wanted = false;
      this.#read += chunk.length;
      if (this.#read - this.#reported >= reportEveryBytes) void this.#say('reading');
      // Set before the push and not after it: that may ask for the next.
      if (this.push(chunk)) this.#wanted = true;
    }
  }

  #atTheEnd(): void {
    if (this.#isBroken) this.destroy(new AnswerBroken('the answer of a function broke off'));
    else if (this.#hasEnd) this.push(null);
  }

  #say(state: Report['state']): Promise<boolean | null> {
    this.#reported = this.#read;
    return this.#report(this.#channel, { id: this.#id, read: this.#read, state });
  }
}

/** Why nothing more of an answer is wanted, or can be sent. */
export type AnswerStop = 'left' | 'nobody' | 'broken';

/** The way of one answer to its caller, from the worker. Every method rejects with `AnswerStopped` once it is over. */
export interface AnswerWriter {
  readonly start: (head: AnswerHead) => Promise<void>;
  /** Resolves when there is room for more. */
  readonly write: (chunk: Buffer) => Promise<void>;
  readonly end: () => Promise<void>;
  /** Resolves when it is over before its end. */
  readonly stopped: Promise<AnswerStop>;
  readonly close: () => void;
}

export class AnswerStopped extends Error {
  override readonly name = 'AnswerStopped';
  readonly why: AnswerStop;

  constructor(why: AnswerStop) {
    super(`an answer is over: ${why}`);
    this.why = why;
  }
}

class Writer implements AnswerWriter {
  readonly #redis: Redis;
  readonly #header: Pick<PartHeader, 'id' | 'reports'>;
  readonly #replyTo: string;
  readonly #over = Promise.withResolvers<AnswerStop>();
  #stop: AnswerStop | null = null;
  #number = 0;
  #sent = 0;
  #read = 0;
  #heardAt = performance.now();
  #room = Promise.withResolvers<void>();
  #turn: Promise<void> = Promise.resolve();
  #short: Buffer[] = [];
  #shortBytes = 0;
  #underWay = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, header: Pick<PartHeader, 'id' | 'reports'>, replyTo: string) {
    [this.#redis, this.#header, this.#replyTo] = [redis, header, replyTo];
  }

  get stopped(): Promise<AnswerStop> {
    return this.#over.promise;
  }

  async start(head: AnswerHead): Promise<void> {
    this.#heardAt = performance.now();
    this.#timer = setInterval(() => this.#listen(), reportEveryMs).unref();
    await this.#send('head', Buffer.alloc(0), head);
  }

  /** Several may be under way: each is sent when there is room for it behind the ones before. */
  write(chunk: Buffer): Promise<void> {
    const sent = this.#turn.then(() => this.#sendInWindow(chunk));
    this.#turn = sent.catch(() => undefined);
    return sent;
  }

  async #sendInWindow(chunk: Buffer): Promise<void> {
    if (chunk.length === 0) return;
    const isFull = (): boolean => this.#sent > this.#read && this.#sent + chunk.length - this.#read > windowBytes;
    while (this.#stop === null && isFull()) await this.#room.promise;
    if (this.#stop !== null) throw new AnswerStopped(this.#stop);
    this.#sent += chunk.length;
    this.#short.push(chunk);
    this.#shortBytes += chunk.length;
    if (this.#underWay === 0 || this.#shortBytes >= wholePartBytes) this.#sendShort();
  }

  /**
   * Not waited for: one command after the other left both sides idle for half of the time. The window is the bound, the
   * connection keeps the order, and a command that fails stops the answer.
   */
  #sendShort(): void {
    if (this.#shortBytes === 0) return;
    const [first = Buffer.alloc(0)] = this.#short;
    const data = this.#short.length === 1 ? first : Buffer.concat(this.#short);
    [this.#short, this.#shortBytes] = [[], 0];
    void this.#sendPart(data).catch(() => undefined);
  }

  async #sendPart(data: Buffer): Promise<void> {
    this.#underWay += 1;
    await this.#send('chunk', data);
    this.#underWay -= 1;
    if (this.#underWay === 0) this.#sendShort();
  }

  async end(): Promise<void> {
    this.#sendShort();
    await this.#send('end', Buffer.alloc(0));
    this.close();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  heard({ read, state }: Report): void {
    this.#heardAt = performance.now();
    this.#read = Math.max(this.#read, read);
    if (state !== 'reading') this.#stopFor(state);
    this.#wake();
  }

  #listen(): void {
    if (performance.now() - this.#heardAt > silenceMs) this.#stopFor('broken');
  }

  #stopFor(why: AnswerStop): void {
    this.#stop ??= why;
    this.#over.resolve(this.#stop);
    this.close();
    this.#wake();
  }

  #wake(): void {
    this.#room.resolve();
    this.#room = Promise.withResolvers();
  }

  async #send(kind: PartHeader['kind'], data: Buffer, head?: AnswerHead): Promise<void> {
    if (this.#stop !== null) throw new AnswerStopped(this.#stop);
    const header: PartHeader = { ...this.#header, kind, number: this.#number, ...(head && { head }) };
    this.#number += 1;
    const replyTo = this.#replyTo;
    const calls = this.#redis
      .pipeline()
      .xadd(replyTo, 'MAXLEN', '~', streamLength, '*', 'part', JSON.stringify(header), 'data', data);
    if (kind === 'head') calls.expire(replyTo, streamTtlSeconds);
    const answers = await calls.exec().catch(() => null);
    if (answers === null || answers.some(([error]) => error !== null)) {
      this.#stopFor('broken');
      throw new AnswerStopped('broken');
    }
  }
}

/** The answers that the runs of a worker send while they go on. */
export interface AnswerWriters {
  /** @param replyTo the reply stream of the process whose caller waits */
  readonly open: (jobId: string, replyTo: string) => Promise<AnswerWriter>;
}

export const createAnswerWriters = (
  redis: Redis,
  subscriber: Pick<Subscriber, 'onReport'>,
  prefix: string,
): AnswerWriters => {
  const reports = `${prefix}:answers:${randomUUID()}`;
  const open = new Map<string, Writer>();
  let subscribed: Promise<void> | undefined;
  const listen = (): Promise<void> =>
    subscriber.onReport(reports, (text) => {
      const report = reportSchema.safeParse(JSON.parse(text));
      if (report.success) open.get(report.data.id)?.heard(report.data);
    });
  return {
    open: async (jobId, replyTo) => {
      await (subscribed ??= listen());
      const writer = new Writer(redis, { id: jobId, reports }, replyTo);
      open.set(jobId, writer);
      const close = writer.close.bind(writer);
      return {
        start: (head) => writer.start(head),
        write: (chunk) => writer.write(chunk),
        end: () => writer.end(),
        stopped: writer.stopped,
        close: () => {
          close();
          open.delete(jobId);
        },
      };
    },
  };
};
