import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Context } from 'koa';
import { type ReservedBytes, createByteBudget } from '#lib/byte-budget.ts';
import type { Config } from '#lib/config.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { AnswerStream } from '#queues/answer-streams.ts';
import { addressOf, networkOf } from '#api/address.ts';
import { HoldingReadable } from './holding-readable.ts';
import { PieceStream, wholeAnswer } from './piece-stream.ts';

/** Smaller answers are in the kernel's buffer at once, and are not counted. */
const uncounted = 16 * 1024;
const sweepMs = 1000;
/** A connection without progress for so long is closed before another answer of the same project is refused. */
const evictableMs = 2000;

interface Answer {
  readonly owner: string;
  readonly ctx: Context;
  readonly reserved: ReservedBytes;
  /** Bytes that the kernel had taken at the last progress. */
  taken: number;
  progressAt: number;
}

/** Bytes of a connection that the kernel has taken. */
const takenBy = (socket: Socket): number => socket.bytesWritten - socket.writableLength;

const noteProgress = (answer: Answer, now: number): void => {
  const { socket } = answer.ctx.res;
  // Without a socket it waits for an earlier answer on its connection; with nothing to write, for its source.
  const taken = socket === null || socket.writableLength === 0 ? -1 : takenBy(socket);
  if (taken !== -1 && taken === answer.taken) return;
  answer.taken = taken;
  answer.progressAt = now;
};

const overloaded = ({ method }: Context): ServiceError =>
  new ServiceError('overloaded', 'Too many bytes of answers wait for their readers.', {
    hint:
      method === 'GET' || method === 'HEAD'
        ? 'Read the answers that are under way, ask for fewer rows at a time, and try again.'
        : 'Only the answer is missing: what was asked for may have been done.',
    headers: { 'Retry-After': '2' },
  });

/** The owners of an answer: a project, and with it an organization. */
interface Party {
  readonly owner: string;
  readonly group: string;
}

export interface Unsent {
  /**
   * Takes over an answer that is set: one that is long goes out in pieces, and is closed when its reader makes no
   * progress.
   * @throws {ServiceError} `overloaded` when too much of the same owner's, or of all, is unsent
   */
  readonly take: (ctx: Context, party: Partial<Party>) => void;
}

type Limits = Pick<Config, 'PLINTH_ANSWERS_PER_PROJECT' | 'PLINTH_ANSWERS_PER_PROCESS' | 'PLINTH_STALLED_ANSWER_MS'>;

/** The answers of a process that are on their way, with what they hold in memory. */
class Answers {
  readonly #limits: Limits;
  readonly #log: Log;
  readonly #budget: ReturnType<typeof createByteBudget>;
  readonly #open = new Set<Answer>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: Limits, log: Log) {
    this.#limits = limits;
    this.#log = log;
    this.#budget = createByteBudget({
      perOwner: limits.PLINTH_ANSWERS_PER_PROJECT,
      total: limits.PLINTH_ANSWERS_PER_PROCESS,
    });
  }

  take(ctx: Context, { owner, group }: Party, bytes: number): void {
    const reserved = this.#budget.reserve(owner, group);
    if (!reserved.grow(bytes) && !this.#makeRoom(reserved, owner, bytes)) {
      reserved.release();
      throw overloaded(ctx);
    }
    const answer: Answer = { owner, ctx, reserved, taken: -1, progressAt: performance.now() };
    this.#open.add(answer);
    this.#timer ??= setInterval(() => this.#sweep(), sweepMs).unref();
    const end = (): void => {
      reserved.release();
      this.#open.delete(answer);
    };
    if (ctx.res.destroyed) end();
    else ctx.res.once('close', end);
  }

  /** Closes answers of the owner that are not being read, the longest without progress first. */
  #makeRoom(reserved: ReservedBytes, owner: string, bytes: number): boolean {
    const before = performance.now() - evictableMs;
    const stalled = [...this.#open]
      .filter((answer) => answer.owner === owner && answer.taken !== -1 && answer.progressAt < before)
      .toSorted((a, b) => a.progressAt - b.progressAt);
    return stalled.some((answer) => {
      this.#cut(answer);
      return reserved.grow(bytes);
    });
  }

  #sweep(): void {
    const now = performance.now();
    for (const answer of this.#open) {
      noteProgress(answer, now);
      if (now - answer.progressAt >= this.#limits.PLINTH_STALLED_ANSWER_MS) this.#cut(answer);
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #cut(answer: Answer): void {
    this.#open.delete(answer);
    answer.reserved.release();
    answer.ctx.req.socket.destroy();
    this.#log.info({ owner: answer.owner }, 'a connection was closed: its client did not read the answer');
  }
}

/** The known size of a body: 0 for a stream that makes its bytes as they are read. */
const lengthOf = (body: unknown): number => {
  if (typeof body === 'string' || Buffer.isBuffer(body)) return body.length;
  const isCounted = body instanceof PieceStream || body instanceof HoldingReadable || body instanceof AnswerStream;
  return isCounted ? body.heldLength : 0;
};

/** Bounds what answers hold in memory while their clients read them, or do not. */
export const createUnsent = (limits: Limits, log: Log): Unsent => {
  const answers = new Answers(limits, log);
  return {
    take: (ctx, { owner = networkOf(addressOf(ctx)), group = owner }) => {
      const body: unknown = ctx.body;
      const isText = typeof body === 'string' || Buffer.isBuffer(body);
      const bytes = lengthOf(body);
      if (isText ? bytes <= uncounted : !(body instanceof Readable)) return;
      answers.take(ctx, { owner, group }, bytes);
      if (!isText || bytes <= wholeAnswer || ctx.method === 'HEAD') return;
      const { type } = ctx;
      const contentType = ctx.response.get('Content-Type');
      ctx.body = new PieceStream([body]);
      ctx.set('Content-Type', contentType === '' ? type : contentType);
    },
  };
};
