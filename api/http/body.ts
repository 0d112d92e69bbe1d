import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Context } from 'koa';
import type { ReaderName } from '#lib/json-thread.ts';
import { ServiceError } from '#lib/errors.ts';
import type { ReservedBytes } from '#lib/byte-budget.ts';
import { decodeUtf8 } from '#lib/json-body.ts';
import { type JsonParser, maxInlineBytes } from '#lib/json-parser.ts';
import type { BodyReader } from '../endpoint.ts';

export interface BodyRules {
  /** Bytes. */
  readonly limit: number;
  /** The setting that moves the limit, for the error. */
  readonly setting: string;
  readonly timeoutMs: number;
  /** Bytes per second, on average over each five seconds. */
  readonly minRate: number;
  /** Where the bytes are counted while they are in memory. */
  readonly reserved: ReservedBytes;
  /** Answers `Expect: 100-continue`: the body is wanted. */
  readonly invite: () => void;
  /** Reads JSON; large texts off the event loop. */
  readonly json: JsonParser;
  /** The party whose work that is. */
  readonly owner: string;
  /**
   * text/plain is taken too, as the JSON string that it would be. What takes that takes anything, and passes it on as
   * text: of a large body it is only checked that it is JSON.
   */
  readonly text?: boolean;
}

const tooLarge = ({ limit, setting }: BodyRules): ServiceError =>
  new ServiceError('payload_too_large', `The body is larger than ${limit} bytes.`, {
    hint: `Operators set the limit with ${setting}.`,
  });

const tooSlow = (message: string): ServiceError =>
  new ServiceError('request_timeout', message, { headers: { Connection: 'close' } });

const brokeOff = (cause?: unknown): ServiceError => new ServiceError('invalid_json', 'The body broke off.', { cause });

const overloaded = (): ServiceError =>
  new ServiceError('overloaded', 'Too many bytes of request bodies are in flight.', {
    hint: 'Send fewer large bodies at a time, and this one again shortly.',
    headers: { 'Retry-After': '2' },
  });

const declaredLength = (req: IncomingMessage): number => Number(req.headers['content-length'] ?? 0);

/** Not counted of each body: most are smaller, and the limit on connections bounds them. */
const uncountedBytes = 16 * 1024;
const rateWindowMs = 5000;

/**
 * Calls `refuse` when the body does not arrive within its time, or when too little of it arrived within five seconds.
 * @returns ends the watch
 */
const watchArrival = (
  { timeoutMs, minRate }: BodyRules,
  arrived: () => number,
  refuse: (error: ServiceError) => void,
): (() => void) => {
  const min = (minRate * rateWindowMs) / 1000;
  let before = 0;
  let left = timeoutMs;
  let check: NodeJS.Immediate | undefined;
  const checkRate = (): void => {
    if (left <= 0) return refuse(tooSlow(`The body did not arrive within ${timeoutMs} ms.`));
    if (arrived() - before < min) {
      return refuse(tooSlow(`The body arrived at less than ${minRate} bytes per second.`));
    }
    before = arrived();
    timer = wait();
  };
  const wait = (): NodeJS.Timeout => {
    const span = Math.min(left, rateWindowMs);
    left -= span;
    // When the event loop was blocked, bytes that arrived meanwhile are read before the check.
    return setTimeout(() => {
      check = setImmediate(checkRate);
    }, span);
  };
  let timer = wait();
  return () => {
    clearTimeout(timer);
    clearImmediate(check);
  };
};

const refusalBefore = (req: IncomingMessage, rules: BodyRules): ServiceError | null => {
  if (declaredLength(req) > rules.limit) return tooLarge(rules);
  return req.destroyed ? brokeOff() : null;
};

/**
 * Reads a body. One that is refused is still taken off the wire, unkept, until it ends or the server's request time-out
 * passes: a connection that is closed under a sending client shows it a reset instead of the answer.
 * @throws {ServiceError} `payload_too_large`, `overloaded`, `request_timeout`, `invalid_json` when it breaks off
 */
export const readBody = (req: IncomingMessage, rules: BodyRules): Promise<Buffer> => {
  const refusal = refusalBefore(req, rules);
  if (refusal !== null) return Promise.reject(refusal);
  rules.invite();
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let length = 0;
    const refuse = (error: ServiceError): void => {
      endWatch();
      req.off('data', take).resume();
      chunks = [];
      rules.reserved.release();
      reject(error);
    };
    const take = (chunk: Buffer): void => {
      const counted = Math.min(chunk.length, Math.max(0, length + chunk.length - uncountedBytes));
      length += chunk.length;
      if (length > rules.limit) refuse(tooLarge(rules));
      else if (counted > 0 && !rules.reserved.grow(counted)) refuse(overloaded());
      else chunks.push(chunk);
    };
    const endWatch = watchArrival(rules, () => length, refuse);
    req.on('data', take);
    req.once('error', (error) => refuse(brokeOff(error)));
    req.once('end', () => {
      endWatch();
      resolve(Buffer.concat(chunks));
    });
  });
};

/** The least that a limit on bodies can be set to. */
const leastLimit = 1024;
const noBytes = Buffer.alloc(0);

/**
 * A small body that came in one packet with its head, as most do: watching it arrive costs 20 µs. Null: it is longer, or
 * not all of it is here.
 */
const bodyAtHand = (req: IncomingMessage): Buffer | null => {
  if (!req.complete || req.destroyed || req.readableEnded || req.readableLength > leastLimit) return null;
  return (req.read() as Buffer | null) ?? noBytes;
};

let waiting: (() => void)[] = [];

const resumeAll = (): void => {
  const resumed = waiting;
  waiting = [];
  for (const resume of resumed) resume();
};

/** All that wait in one turn of the event loop share its timer. */
const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(resumeAll);
  });

/**
 * As `bodyAtHand`, once the parser has been through the packet: it gives the head out first, and what is called with
 * that from memory alone is faster than the parser.
 */
export const bodySoonAtHand = async (req: IncomingMessage): Promise<Buffer | null> => {
  const here = bodyAtHand(req);
  if (here !== null || req.complete || !(declaredLength(req) <= leastLimit)) return here;
  await nextTurn();
  return bodyAtHand(req);
};

const jsonType = /^application\/([\w.+-]+\+)?json$/;
const charset = /; *charset *= *"?([^\s;"]*)/;

const plainType = /^text\/plain$/;

const isUtf8 = (expected: RegExp, contentType: string): boolean => {
  const text = contentType.toLowerCase();
  const named = charset.exec(text)?.[1] ?? 'utf-8';
  return expected.test(text.replace(/;.*/s, '').trim()) && ['utf-8', 'utf8', 'us-ascii'].includes(named);
};

/** Whether the body is JSON or plain text, in UTF-8. */
export const isJsonOrText = (contentType: string): boolean =>
  isUtf8(jsonType, contentType) || isUtf8(plainType, contentType);

/** @returns whether the body is plain text and not JSON */
const requireJson = (ctx: Context, { text: takesText = false }: BodyRules): boolean => {
  const type = ctx.get('content-type');
  const isText = takesText && isUtf8(plainType, type);
  if (!isText && !isUtf8(jsonType, type)) {
    const given = type === '' ? 'of no type' : type.slice(0, 100);
    throw new ServiceError('unsupported_media_type', `The body must be JSON in UTF-8, not ${given}.`, {
      hint: 'Send the header Content-Type: application/json.',
    });
  }
  const encoding = ctx.get('content-encoding').toLowerCase();
  if (encoding !== '' && encoding !== 'identity') {
    throw new ServiceError('unsupported_media_type', 'The body must not be compressed.', {
      hint: 'Leave out the header Content-Encoding.',
    });
  }
  return isText;
};

/**
 * A JSON body that a thread reads: `text` is what stands for it where two requests are compared.
 * @throws {ServiceError} those of `readBody` and of the reader, `unsupported_media_type`
 */
export const readBodyInThread = async (ctx: Context, rules: BodyRules, read: BodyReader): Promise<JsonBody> => {
  const bytes = await readBody(ctx.req, rules);
  requireJson(ctx, rules);
  const { value, digest } = await read(rules.json, bytes, rules.owner);
  return { text: digest, value };
};

export interface JsonBody {
  readonly text: string;
  /** Undefined when there was no body, and of a large one that is only passed on. */
  readonly value: unknown;
}

/**
 * The JSON body of a request.
 * @throws {ServiceError} `unsupported_media_type`, `invalid_json`, `payload_too_large` also when it holds too many
 * values,
 * `overloaded`, and those of `readBody`
 */
export const readJsonBody = async (ctx: Context, rules: BodyRules): Promise<JsonBody> =>
  jsonBodyOf(ctx, rules, await readBody(ctx.req, rules));

/** As `readJsonBody`, of a body that was read. */
export const jsonBodyOf = async (ctx: Context, rules: BodyRules, bytes: Buffer): Promise<JsonBody> => {
  if (bytes.length === 0) return { text: '', value: undefined };
  const isText = requireJson(ctx, rules);
  if (isText) {
    const text = decodeUtf8(bytes);
    return { text: JSON.stringify(text), value: text };
  }
  const { json, owner, text: passesText = false } = rules;
  if (!passesText || bytes.length <= maxInlineBytes) return json.parse(bytes, { owner });
  await json.check(bytes, { owner });
  return { text: bytes.toString(), value: undefined };
};

interface ReadInThread {
  readonly faults: readonly { readonly path: string; readonly message: string }[];
  readonly body: unknown;
}

/** A body of 10 MB of short texts has fewer. */
const maxPartsInThread = 2_000_000;

/**
 * Reads and checks a body with a reader of the JSON threads, whose result is `{faults, body}`.
 * @throws {ServiceError} `validation_failed`, and those of `JsonParser.read`
 */
export const checkedInThread =
  (reader: ReaderName): BodyReader =>
  async (json, bytes, owner) => {
    const options = { owner, maxParts: maxPartsInThread };
    const { faults, body } = (await json.read(bytes, reader, options)) as ReadInThread;
    if (body !== null && faults.length === 0) return { value: body, digest: hash('sha256', bytes) };
    throw new ServiceError('validation_failed', 'The body is not valid.', { details: faults });
  };
