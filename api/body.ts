import type { IncomingMessage } from 'node:http';
import type { Context } from 'koa';
import { ServiceError } from '#lib/errors.ts';
import { decodeUtf8, parseJsonBody } from '#lib/json-body.ts';

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
  const text = decodeUtf8(bytes);
  return isText ? { text: JSON.stringify(text), value: text } : { text, value: parseJsonBody(text) };
};
