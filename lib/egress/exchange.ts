import type { Dispatcher } from 'undici';

/** The request, and the bounds in time and size of its answer. */
export interface Exchange {
  readonly method?: Dispatcher.HttpMethod;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Buffer | null;
  /** From the call to the last byte of the answer. */
  readonly timeoutMs: number;
  /** The bytes that are read of the answer's body; the rest is discarded. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Exchanged {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** As it came: not decompressed. */
  readonly body: Buffer;
  /** Whether the body is longer than `maxBytes`. */
  readonly truncated: boolean;
}

const tookTooLong = (): Error => Object.assign(new Error('there was no answer in time'), { code: 'ETIMEDOUT' });
const isEnough = (): Error => new Error('the rest of the answer is not wanted');

/** Gathers an answer as it comes. Without a stream: its pieces are bounded, and a stream cost more than the rest. */
const gather = (maxBytes: number, done: (answer: Exchanged) => void) => {
  const chunks: Buffer[] = [];
  let room = maxBytes;
  let status = 0;
  let headers: Exchanged['headers'] = {};
  const end = (truncated: boolean): void => done({ status, headers, body: Buffer.concat(chunks), truncated });
  return {
    end,
    // Informational answers (1xx) arrive here first.
    start: (code: number, given: Exchanged['headers']): void => {
      status = code;
      headers = given;
    },
    /** @returns whether more is wanted */
    take: (chunk: Buffer): boolean => {
      chunks.push(chunk.length <= room ? chunk : chunk.subarray(0, room));
      room -= chunk.length;
      if (room < 0) end(true);
      return room >= 0;
    },
  };
};

/**
 * One request and its answer, redirects not followed. What is not wanted any longer ends with its connection.
 * @throws what `signal` was aborted with; an error of code `ETIMEDOUT` when time is up; undici's errors
 */
export const exchange = async (
  dispatcher: Dispatcher,
  { origin, pathname, search }: Readonly<URL>,
  { method = 'GET', headers = {}, body = null, timeoutMs, maxBytes, signal }: Exchange,
): Promise<Exchanged> => {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Exchanged>();
  const answer = gather(maxBytes, resolve);
  let controller: Dispatcher.DispatchController | undefined;
  let stopped: Error | undefined;
  const stop = (reason: Error): void => {
    stopped = reason;
    reject(reason);
    controller?.abort(reason);
  };
  const timer = setTimeout(() => stop(tookTooLong()), timeoutMs);
  const abort = (): void => stop(signal?.reason as Error);
  signal?.addEventListener('abort', abort, { once: true });
  // One time-out for all of it.
  const options = { origin, path: pathname + search, method, headers, body, headersTimeout: 0, bodyTimeout: 0 };
  try {
    dispatcher.dispatch(options, {
      onRequestStart: (startedBy) => {
        controller = startedBy;
        if (stopped !== undefined) startedBy.abort(stopped);
      },
      onResponseStart: (_controller, status, given) => answer.start(status, given),
      onResponseData: (startedBy, chunk) => {
        if (!answer.take(chunk)) startedBy.abort(isEnough());
      },
      onResponseEnd: () => answer.end(false),
      onResponseError: (_controller, error) => reject(error),
    });
    return await promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
};
