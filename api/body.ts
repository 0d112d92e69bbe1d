import type { IncomingMessage } from 'node:http';
import type { Context } from 'koa';
import { ServiceError } from '#lib/errors.ts';

export interface BodyRules {
  /** Bytes. */
  readonly limit: number;
  /** The setting that moves the limit, for the error. */
  readonly setting: string;
  readonly timeoutMs: number;
  /** text/plain is taken too, as the JSON string that it would be. */
  readonly text?: boolean;
}

const tooLarge = ({ limit, setting }: BodyRules): ServiceError =>
  new ServiceError('payload_too_large', `The body is larger than ${limit} bytes.`, {
    hint: `Operators set the limit with ${setting}.`,
  });

const tooSlow = ({ timeoutMs }: BodyRules): ServiceError =>
  new ServiceError('request_timeout', `The body did not arrive within ${timeoutMs} ms.`, {
    headers: { Connection: 'close' },
  });

const brokeOff = (cause?: unknown): ServiceError => new ServiceError('invalid_json', 'The body broke off.', { cause });

const declaredLength = (req: IncomingMessage): number => Number(req.headers['content-length'] ?? 0);

/**
 * Reads a body. One that is refused is still taken off the wire, unkept, until it ends or the server's request time-out
 * passes: a connection that is closed under a sending client shows it a reset instead of the answer.
 * @throws {ServiceError} `payload_too_large`, `request_timeout`, `invalid_json` when it breaks off
 */
export const readBody = (req: IncomingMessage, rules: BodyRules): Promise<Buffer> => {
  if (declaredLength(req) > rules.limit) return Promise.reject(tooLarge(rules));
  if (req.destroyed) return Promise.reject(brokeOff());
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let length = 0;
    const refuse = (error: ServiceError): void => {
      clearTimeout(timer);
      req.off('data', take).resume();
      chunks = [];
      reject(error);
    };
    const take = (chunk: Buffer): void => {
      length += chunk.length;
      if (length > rules.limit) refuse(tooLarge(rules));
      else chunks.push(chunk);
    };
    const timer = setTimeout(() => refuse(tooSlow(rules)), rules.timeoutMs);
    req.on('data', take);
    req.once('error', (error) => refuse(brokeOff(error)));
    req.once('end', () => {
      clearTimeout(timer);
      resolve(Buffer.concat(chunks));
    });
  });
};

// A byte order mark stays, and is refused as JSON refuses it.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws {ServiceError} `invalid_json` */
const decode = (bytes: Buffer): string => {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  }
};

const jsonType = /^application\/([\w.+-]+\+)?json$/;
const charset = /; *charset *= *"?([^\s;"]*)/;

const plainType = /^text\/plain$/;

const isUtf8 = (expected: RegExp, contentType: string): boolean => {
  const text = contentType.toLowerCase();
  const named = charset.exec(text)?.[1] ?? 'utf-8';
  return expected.test(text.replace(/;.*/s, '').trim()) && ['utf-8', 'utf8', 'us-ascii'].includes(named);
};

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

const deepest = 1000;
const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

/** The deepest nesting of a JSON text that was parsed before. */
const nestingOf = (json: string): number => {
  let [depth, most, inString] = [0, 0, false];
  for (let i = 0; i < json.length; i += 1) {
    const code = json.charCodeAt(i);
    if (inString && code === backslash) i += 1;
    else if (code === quote) inString = !inString;
    else if (!inString && (code === openBracket || code === openBrace)) most = Math.max(most, (depth += 1));
    else if (!inString && (code === closeBracket || code === closeBrace)) depth -= 1;
  }
  return most;
};

/** JSON.parse takes any depth, but what walks the value later (JSON.stringify, a schema) runs out of stack. */
const requireShallow = (text: string): void => {
  if (text.length < deepest * 2 || nestingOf(text) <= deepest) return;
  throw new ServiceError('invalid_json', `The body is nested deeper than ${deepest} levels.`);
};

export interface JsonBody {
  readonly text: string;
  /** Undefined when there was no body. */
  readonly value: unknown;
}

/**
 * The JSON body of a request.
 * @throws {ServiceError} `unsupported_media_type`, `invalid_json` and those of `readBody`
 */
export const readJsonBody = async (ctx: Context, rules: BodyRules): Promise<JsonBody> => {
  const bytes = await readBody(ctx.req, rules);
  if (bytes.length === 0) return { text: '', value: undefined };
  const isText = requireJson(ctx, rules);
  const text = decode(bytes);
  if (isText) return { text: JSON.stringify(text), value: text };
  try {
    const value: unknown = JSON.parse(text);
    requireShallow(text);
    return { text, value };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ServiceError('invalid_json', 'The body is not JSON.', {
      details: [{ path: '', message: error.message }],
    });
  }
};
