import { randomUUID } from 'node:crypto';
import type { ChainableCommander, Redis } from 'ioredis';
import { z } from 'zod';
import { createBatcher } from '#lib/batch.ts';
import { AnswerStream, type AnswerPart, type SendReport, partOf } from './answer-streams.ts';
import { type JobOutcome, endStatuses } from './define.ts';
import { type JobStatusEvent, jobChannel } from './signals.ts';

/**
 * The replies by which callers learn of the ends of their jobs: each API process owns one Redis stream, jobs carry its
 * name, and one blocking read per process settles all callers. Unlike pub/sub, a short loss of the connection loses
 * nothing. One round trip measured 0.7 ms, against 1.0 ms with BullMQ's QueueEvents. Beside the reply lies the outcome
 * itself until Postgres has it, so that a job whose worker dies in between is recorded and not run again. Both keys
 * share a hash tag: they are written in one MULTI.
 */
const streamTtlSeconds = 3600;
const outcomeTtlSeconds = 24 * 3600;
const streamLength = 10_000;
const blockMs = 5000;
/**
 * Replies that were read lie in the stream until they are so many characters together, an entry's own cost included.
 */
const trimAfterLength = 65_536;
const entryLength = 256;

const outcomeSchema = z.object({
  status: z.enum(endStatuses),
  result: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});
const storedSchema = z.object({
  runId: z.string(),
  /** Left out by workers of an earlier release. */
  finishedAt: z.coerce.date().optional(),
  outcome: outcomeSchema.extend({ report: z.string().nullable().optional() }),
});
/** Without an outcome: the run sleeps, and its caller waits no longer. */
const replySchema = z.object({ id: z.string(), outcome: outcomeSchema.nullable() });

const streamKey = (prefix: string, name: string): string => `{${prefix}:replies}:stream:${name}`;
const outcomeKey = (prefix: string, jobId: string): string => `{${prefix}:replies}:outcome:${jobId}`;

interface Waiter {
  /** Null when the time passed first, or the run sleeps. */
  readonly outcome: Promise<JobOutcome | null>;
  /** Settled when the run begins to answer before its end; then there is no outcome. */
  readonly started: Promise<AnswerStream>;
  readonly stop: () => void;
}

export interface Replies {
  /** Goes into the job's row, for the worker that ends it. */
  readonly stream: string;
  /** Begin to wait before the job is enqueued, or its reply may come before the subscription. */
  readonly wait: (jobId: string, timeoutMs: number) => Waiter;
  readonly close: () => Promise<void>;
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100).unref());

/** Replies that were read are deleted in batches: one command for each reply cost as much as reading it. */
const trimming = (redis: Redis, stream: string) => {
  let length = 0;
  return {
    note: (entry: number): void => {
      length += entry + entryLength;
    },
    drop: (upTo: string): void => {
      if (length < trimAfterLength) return;
      length = 0;
      redis.xtrim(stream, 'MINID', upTo).catch(() => undefined);
    },
  };
};

/** Takes all that is expected of one job. */
interface Expected {
  /** @param outcome null: the run sleeps */
  readonly settle: (outcome: JobOutcome | null) => void;
  readonly take: (part: AnswerPart) => void;
}

type Waiting = Map<string, Expected>;

/** An unreadable reply (of another version of plinth) must not keep the other replies from their callers. */
const settling =
  (waiting: Waiting, report: SendReport) =>
  ([name, text, , data]: readonly Buffer[]): void => {
    if (text === undefined) return;
    if (name?.toString() === 'part') {
      const part = partOf(text.toString(), data ?? Buffer.alloc(0));
      const expected = part && waiting.get(part.id);
      if (expected) expected.take(part);
      else if (part?.kind === 'head') void report(part.reports, { id: part.id, read: 0, state: 'nobody' });
      return;
    }
    const reply = replySchema.safeParse(JSON.parse(text.toString()));
    if (reply.success) waiting.get(reply.data.id)?.settle(reply.data.outcome);
  };

interface Listeners {
  readonly onOutcome: (outcome: JobOutcome | null) => void;
  readonly onStarted: (stream: AnswerStream) => void;
}

/** A run whose answer is under way cannot go on later: the answer breaks off. */
const sleptWhileAnswering: JobOutcome = {
  status: 'failed',
  result: null,
  error: { code: 'error', message: 'The run went to sleep in the middle of its answer.' },
};

/** Takes what one job is expected to send: its end, or before that an answer in parts. */
const expecting = (report: SendReport, { onOutcome, onStarted }: Listeners): Expected => {
  let stream: AnswerStream | undefined;
  return {
    settle: (outcome) => {
      if (stream === undefined) onOutcome(outcome);
      else stream.runEnded(outcome ?? sleptWhileAnswering);
    },
    take: (part) => {
      const { head } = part;
      if (stream !== undefined) return stream.receive(part);
      if (head === undefined) return;
      stream = new AnswerStream({ ...part, head }, report);
      onStarted(stream);
    },
  };
};

/** Waits for jobs, each for some time. */
const waitingIn =
  (waiting: Waiting, report: SendReport): Replies['wait'] =>
  (jobId, timeoutMs) => {
    const { promise, resolve } = Promise.withResolvers<JobOutcome | null>();
    const started = Promise.withResolvers<AnswerStream>();
    const timer = setTimeout(() => resolve(null), timeoutMs);
    const onStarted = (stream: AnswerStream): void => {
      // It is expected to its end, however long that takes.
      clearTimeout(timer);
      stream.once('close', () => waiting.delete(jobId));
      started.resolve(stream);
    };
    const stop = (): void => {
      clearTimeout(timer);
      waiting.delete(jobId);
      resolve(null);
    };
    waiting.set(jobId, expecting(report, { onOutcome: resolve, onStarted }));
    return { outcome: promise.finally(stop), started: started.promise, stop };
  };

/**
 * @param redis a connection of its own: it spends its life in a blocking read
 * @param endsOf how jobs ended by their rows; asked after a gap, in which the stream may have got lost
 */
export const openReplies = (
  redis: Redis,
  prefix: string,
  endsOf: (jobIds: readonly string[]) => Promise<ReadonlyMap<string, JobOutcome>> = () => Promise.resolve(new Map()),
  report: SendReport = () => Promise.resolve(null),
): Replies => {
  const stream = streamKey(prefix, randomUUID());
  const waiting: Waiting = new Map();
  const settle = settling(waiting, report);
  const wasRead = trimming(redis, stream);
  let open = true;
  let last = '0-0';

  let gap = false;

  const closeGap = async (): Promise<void> => {
    for (const [id, outcome] of await endsOf([...waiting.keys()])) waiting.get(id)?.settle(outcome);
    gap = false;
  };

  const readOnce = async (): Promise<void> => {
    // After a gap at once: replies of meanwhile may have been sent before the stream existed again.
    // As bytes: parts of answers are no text.
    const answer = await redis.xreadBuffer('COUNT', 500, 'BLOCK', gap ? 1 : blockMs, 'STREAMS', stream, last);
    if (gap) await closeGap();
    for (const [id, fields] of answer?.[0]?.[1] ?? []) {
      last = id.toString();
      wasRead.note(fields.reduce((sum, { length }) => sum + length, 0));
      settle(fields);
    }
    // The callers' answers go out before the next read does.
    await new Promise(setImmediate);
    wasRead.drop(last);
  };

  // A read that waits for a Redis that is away is never answered once its connection was given up.
  const closed = Promise.withResolvers<void>();
  const whenBroken = async (): Promise<void> => {
    gap = true;
    if (open) await pause();
  };
  const loop = async (): Promise<void> => {
    while (open) await Promise.race([readOnce().catch(whenBroken), closed.promise]);
  };
  const running = loop();

  return {
    stream,
    wait: waitingIn(waiting, report),
    close: async () => {
      open = false;
      closed.resolve();
      redis.disconnect();
      await running;
    },
  };
};

/** The result is escaped once for all that hold it: with the log of a run in it, it may have a megabyte. */
const outcomeText = ({ status, error }: JobOutcome, result: string): string =>
  `${JSON.stringify({ status, error }).slice(0, -1)},"result":${result}`;

const replyText = (jobId: string, outcome: JobOutcome, result = JSON.stringify(outcome.result)): string =>
  `{"id":"${jobId}","outcome":${outcomeText(outcome, result)}}}`;

/** One run of one job, and how it ended. */
export interface RunEnd {
  readonly jobId: string;
  readonly runId: string;
  /** By the worker's clock; what is recorded later has this time, too. */
  readonly finishedAt: Date;
  readonly outcome: JobOutcome;
  readonly replyTo: string | null;
  /** Published to those who listen to the job, in this order. Left out: nothing is. */
  readonly statuses?: readonly JobStatusEvent[];
  /** Whether Postgres has it: then it need not be kept in Redis any more. */
  readonly isRecorded?: () => boolean;
}

/** An end that Postgres may not have yet. */
export type KnownEnd = Pick<RunEnd, 'outcome' | 'finishedAt'>;

/** An end as Redis stores and publishes it. */
export interface EndTexts {
  readonly outcomeKey: string;
  /** Null: Postgres has it. */
  readonly outcome: string | null;
  readonly outcomeSeconds: number;
  /** Null: nobody waits. */
  readonly replyTo: string | null;
  readonly reply: string | null;
  readonly replyStreamLength: number;
  readonly replyStreamSeconds: number;
  readonly channel: string;
  readonly statuses: readonly string[];
}

/** Outcomes between the end of a run and their record in Postgres. */
export interface Outcomes {
  /** Stores the outcome and notifies the waiting caller, both or neither. */
  readonly publish: (end: RunEnd) => Promise<void>;
  /** The texts and places of an end, for the script that writes all of them in one step. */
  readonly textsOf: (end: RunEnd) => Promise<EndTexts>;
  /** Notifies the waiting caller of an end that Postgres has. */
  readonly notify: (jobId: string, outcome: JobOutcome, replyTo: string | null) => Promise<void>;
  /** Tells the waiting caller that the run sleeps. */
  readonly notifyAsleep: (jobId: string, replyTo: string | null) => Promise<void>;
  /** The end of this very run, when it may not be recorded yet. */
  readonly find: (jobId: string, runId: string) => Promise<KnownEnd | null>;
  /** Postgres has it. */
  readonly forget: (jobId: string) => Promise<void>;
}

const reply = (calls: ChainableCommander, replyTo: string, text: string): ChainableCommander =>
  calls.xadd(replyTo, 'MAXLEN', '~', streamLength, '*', 'reply', text).expire(replyTo, streamTtlSeconds);

// Longer ones go by themselves: together they would be a packet without measure.
const batchedTextLength = 65_536;

interface EndText extends Pick<RunEnd, 'jobId' | 'replyTo'> {
  /** The stored outcome, as JSON. */
  readonly keeping: string;
  /** The caller's reply address; null when nobody waits. */
  readonly reply: string | null;
}

const isLong = ({ result, report }: JobOutcome): boolean =>
  (result?.length ?? 0) + (report?.length ?? 0) > batchedTextLength;

/** The result and the report as JSON strings. */
type Escaped = readonly [result: string, report: string];

const escapedOf = ({ result, report = null }: JobOutcome): Escaped => [JSON.stringify(result), JSON.stringify(report)];

/** One at a time: both outcomes of a run with the longest possible log held up a busy worker for 61 ms. */
const escapeSeparately = async ({ result, report = null }: JobOutcome): Promise<Escaped> => {
  const escapedResult = JSON.stringify(result);
  await new Promise(setImmediate);
  const escapedReport = JSON.stringify(report);
  await new Promise(setImmediate);
  return [escapedResult, escapedReport];
};

const endText = ({ jobId, runId, finishedAt, outcome, replyTo }: RunEnd, [result, report]: Escaped): EndText => ({
  jobId,
  replyTo,
  keeping:
    `{"runId":"${runId}","finishedAt":"${finishedAt.toISOString()}",` +
    `"outcome":${outcomeText(outcome, result)},"report":${report}}}`,
  reply: replyTo === null ? null : replyText(jobId, outcome, result),
});

const escapedEnd = async (end: RunEnd): Promise<EndText> =>
  endText(end, isLong(end.outcome) ? await escapeSeparately(end.outcome) : escapedOf(end.outcome));

/** Any number of ends in one MULTI: one packet; each by itself cost a worker a sixth more CPU time. */
const publishAll = async (redis: Redis, prefix: string, ends: readonly EndText[]): Promise<void> => {
  const calls = redis.multi();
  for (const { jobId, replyTo, keeping, reply: text } of ends) {
    calls.set(outcomeKey(prefix, jobId), keeping, 'EX', outcomeTtlSeconds);
    if (replyTo !== null && text !== null) reply(calls, replyTo, text);
  }
  await whole(calls);
};

/** Nobody waits for it, and whoever finds an outcome that is recorded records it once more in vain. */
const forgetEveryMs = 200;

const whole = async (calls: ChainableCommander): Promise<void> => {
  for (const [error] of (await calls.exec()) ?? []) if (error) throw error;
};

export const outcomesIn = (redis: Redis, prefix: string): Outcomes => {
  const forgotten = createBatcher<string, void>(
    async (jobIds) => {
      await redis.unlink(...jobIds.map((jobId) => outcomeKey(prefix, jobId)));
      return jobIds.map(() => undefined);
    },
    { lingerMs: forgetEveryMs },
  );
  const published = createBatcher<EndText, void>(
    async (ends) => {
      await publishAll(redis, prefix, ends);
      return ends.map(() => undefined);
    },
    { eager: true },
  );
  const readStored = async (jobId: string): Promise<z.output<typeof storedSchema> | null> => {
    const text = await redis.get(outcomeKey(prefix, jobId));
    return text === null ? null : storedSchema.parse(JSON.parse(text));
  };
  return {
    textsOf: async (ended) => {
      const { keeping, reply: text } = await escapedEnd(ended);
      return {
        outcomeKey: outcomeKey(prefix, ended.jobId),
        outcome: ended.isRecorded?.() === true ? null : keeping,
        outcomeSeconds: outcomeTtlSeconds,
        replyTo: ended.replyTo,
        reply: text,
        replyStreamLength: streamLength,
        replyStreamSeconds: streamTtlSeconds,
        channel: jobChannel(prefix, ended.jobId),
        statuses: (ended.statuses ?? []).map((status) => JSON.stringify(status)),
      };
    },
    publish: async (ended) => {
      const end = await escapedEnd(ended);
      await (end.keeping.length <= batchedTextLength ? published.add(end) : publishAll(redis, prefix, [end]));
    },
    notify: async (jobId, outcome, replyTo) => {
      if (replyTo !== null) await whole(reply(redis.multi(), replyTo, replyText(jobId, outcome)));
    },
    notifyAsleep: async (jobId, replyTo) => {
      if (replyTo === null) return;
      await whole(reply(redis.multi(), replyTo, JSON.stringify({ id: jobId, outcome: null })));
    },
    find: async (jobId, runId) => {
      const found = await readStored(jobId);
      if (found?.runId !== runId) return null;
      return { outcome: found.outcome, finishedAt: found.finishedAt ?? new Date() };
    },
    forget: forgotten.add,
  };
};
