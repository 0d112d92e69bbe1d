import { Worker } from 'node:worker_threads';
import { ServiceError } from './errors.ts';
import { createFairPermits } from './fair-permits.ts';
import { decodeUtf8, parseJsonBody } from './json-body.ts';
import type { JsonScan, ScanLimits } from './json-scan.ts';
import type { ReaderName, ThreadAnswer, ThreadTask } from './json-thread.ts';

/** Bytes up to which JSON is parsed on the event loop: at worst 20 ms of it. */
export const maxInlineBytes = 262_144;

/**
 * The largest value that may be built on the event loop from a checked text: 50 ms at worst (objects with one name
 * each), 5 ms for usual JSON.
 */
const maxPartsOnLoop = 100_000;
const maxDepth = 1000;

interface ParseOptions {
  /** The owner of the work (a project, else a user): the threads serve owners in a round. */
  readonly owner: string;
  /** Left out: 100,000 containers, strings and names; eight numbers count as one. */
  readonly maxParts?: number;
}

interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
}

/**
 * JSON of strangers, kept away from the event loop when it is large. Each text is checked and counted by a thread
 * before anything is built out of it. All throw ServiceErrors: `invalid_json`, `payload_too_large` (too many parts),
 * `overloaded` (the threads are busy).
 */
export interface JsonParser {
  /**
   * Whether it is JSON, for what is passed on as text. The number of parts is bounded only when `maxParts` is given.
   */
  readonly check: (bytes: Buffer, options: ParseOptions) => Promise<void>;
  /** Text and value; of a large text the value is built on the event loop once it is known to be cheap. */
  readonly parse: (bytes: Buffer, options: ParseOptions) => Promise<ParsedJson>;
  /**
   * Returns the result of a reader that runs in the thread, whatever the size: for values that are expensive to build
   * here.
   * @throws the reader's error, as an Error without its class
   */
  readonly read: (
    bytes: Buffer,
    reader: ReaderName,
    options: ParseOptions & { readonly args?: unknown },
  ) => Promise<unknown>;
  /**
   * Returns the result of a reader (a `BytesReader`) on unchecked bytes, in the thread. It bounds what it builds, and
   * its refusals are values: whoever promised callers errors of another form keeps them.
   * @throws what the reader throws, as an Error without its class
   */
  readonly readUnchecked: (
    bytes: Buffer,
    reader: ReaderName,
    options: Pick<ParseOptions, 'owner'> & { readonly args?: unknown },
  ) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

export interface JsonParserOptions {
  readonly threads?: number;
  readonly timeoutMs?: number;
  /** Texts of one owner that may wait. */
  readonly maxWaiting?: number;
}

const overloaded = (): ServiceError =>
  new ServiceError('overloaded', 'This process has too much JSON to parse just now.', {
    hint: 'Try again in a moment; smaller requests are answered at once.',
    headers: { 'Retry-After': '1' },
  });

const refusalOf = (scan: JsonScan, { maxParts }: ScanLimits): ServiceError => {
  if (scan.verdict === 'too_many') {
    return new ServiceError('payload_too_large', `The JSON holds more than ${maxParts} values.`, {
      hint: 'Objects, lists, strings and names count one each, eight numbers count as one. Send less at a time.',
    });
  }
  if (scan.verdict === 'too_deep') {
    return new ServiceError('invalid_json', `The body is nested deeper than ${maxDepth} levels.`);
  }
  const at = scan.verdict === 'invalid' ? scan.at : 0;
  return new ServiceError('invalid_json', 'The body is not JSON.', {
    details: [{ path: '', message: `Unexpected byte at position ${at}.` }],
  });
};

/** Bounds a fault of ours, not a stranger's text: within JSON.parse V8 ends the process instead of the thread. */
const heapMib = 512;

const startThread = (): Worker => {
  const thread = new Worker(new URL('json-thread.ts', import.meta.url), {
    name: 'json',
    resourceLimits: { maxOldGenerationSizeMb: heapMib },
  });
  thread.unref();
  // A thread that ends while it is idle has no caller to notify.
  thread.on('error', () => undefined);
  return thread;
};

/** One task and its answer. What takes too long, or breaks, ends with its thread. */
const parseInThread = (thread: Worker, task: ThreadTask, timeoutMs: number): Promise<ThreadAnswer> =>
  new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      settle();
      void thread.terminate();
      reject(error);
    };
    const answered = (answer: ThreadAnswer): void => {
      settle();
      resolve(answer);
    };
    const exited = (): void => fail(overloaded());
    // The error belongs to another realm, where `instanceof Error` is false.
    const broke = ({ message }: Error): void => fail(new Error(message));
    const settle = (): void => {
      clearTimeout(timer);
      thread.off('message', answered).off('error', broke).off('exit', exited);
    };
    const timer = setTimeout(exited, timeoutMs);
    thread.once('message', answered).once('error', broke).once('exit', exited);
    thread.postMessage(task, [task.bytes.buffer as ArrayBuffer]);
  });

/** Threads that are started when they are needed and kept. */
const createThreads = (timeoutMs: number) => {
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  const start = (): Worker => {
    const thread = startThread();
    all.add(thread);
    return thread;
  };
  return {
    run: async (task: ThreadTask): Promise<ThreadAnswer> => {
      const thread = idle.pop() ?? start();
      try {
        const answer = await parseInThread(thread, task, timeoutMs);
        idle.push(thread);
        return answer;
      } catch (error) {
        all.delete(thread);
        throw error;
      }
    },
    close: async (): Promise<void> => {
      idle.length = 0;
      await Promise.all([...all].map((thread) => thread.terminate()));
    },
  };
};

// The bytes of those that wait are bounded where they are held: bodies by project, answers of models by their gateway.
const usual = { threads: 2, timeoutMs: 10_000, maxWaiting: 256 } as const;

/**
 * See `JsonParser`. One owner has one thread at a time, so that another one never waits for more than one text of his.
 */
export const createJsonParser = (options: JsonParserOptions = {}): JsonParser => {
  const { threads: total, timeoutMs, maxWaiting } = { ...usual, ...options };
  const permits = createFairPermits({ total, each: 1, maxWaiting, waitMs: timeoutMs, refusal: overloaded });
  const threads = createThreads(timeoutMs);

  const run = async (owner: string, task: ThreadTask): Promise<ThreadAnswer> => {
    await permits.acquire(owner);
    try {
      return await threads.run(task);
    } finally {
      permits.release(owner);
    }
  };

  // Each gets a copy of the bytes, which is handed over: the caller still needs its own.
  const runChecked = async (
    bytes: Buffer,
    reader: ReaderName | null,
    { owner, maxParts, args }: { readonly owner: string; readonly maxParts: number; readonly args: unknown },
  ): Promise<unknown> => {
    const limits = { maxParts, maxDepth };
    const { scan, value } = await run(owner, { bytes: new Uint8Array(bytes), limits, reader, args });
    if (scan !== null && scan.verdict !== 'valid') throw refusalOf(scan, limits);
    return value;
  };

  const check = async (bytes: Buffer, { owner, maxParts = Infinity }: ParseOptions): Promise<void> => {
    await runChecked(bytes, null, { owner, maxParts, args: null });
  };
  return {
    check,
    parse: async (bytes, { owner, maxParts = maxPartsOnLoop }) => {
      if (bytes.length <= maxInlineBytes) {
        const text = decodeUtf8(bytes);
        return { text, value: parseJsonBody(text) };
      }
      await check(bytes, { owner, maxParts });
      const text = bytes.toString();
      return { text, value: JSON.parse(text) as unknown };
    },
    read: (bytes, reader, { owner, maxParts = maxPartsOnLoop, args = null }) =>
      runChecked(bytes, reader, { owner, maxParts, args }),
    readUnchecked: async (bytes, reader, { owner, args = null }) => {
      const { value } = await run(owner, { bytes: new Uint8Array(bytes), limits: null, reader, args });
      return value;
    },
    close: threads.close,
  };
};
