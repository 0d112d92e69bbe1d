import type { IncomingMessage } from 'node:http';
import type { Context } from 'koa';
import { ServiceError } from '#lib/errors.ts';

export interface BodyRules {
  /** Bytes. */
  readonly limit: number;
  /** The setting that moves the limit, for the error. */
  readonly setting: string;
  readonly timeoutMs: number;
}

// A body over the limit is read to its end, so that the client gets to see the answer, but not beyond this.
const mostDrained = 64 * 1024 * 1024;

const tooLarge = ({ limit, setting }: BodyRules, close: boolean): ServiceError =>
  new ServiceError('payload_too_large', `The body is larger than ${limit} bytes.`, {
    hint: `Operators set the limit with ${setting}.`,
    ...(close && { headers: { Connection: 'close' } }),
  });

const tooSlow = ({ timeoutMs }: BodyRules): ServiceError =>
  new ServiceError('request_timeout', `The body did not arrive within ${timeoutMs} ms.`, {
    headers: { Connection: 'close' },
  });

const collect = async (req: IncomingMessage, rules: BodyRules): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > mostDrained) throw tooLarge(rules, true);
    if (length <= rules.limit) chunks.push(chunk);
    else chunks.length = 0;
  }
  if (length > rules.limit) throw tooLarge(rules, false);
  return Buffer.concat(chunks);
};

const declaredLength = (req: IncomingMessage): number => Number(req.headers['content-length'] ?? 0);

/** @throws {ServiceError} `payload_too_large`, `request_timeout` */
export const readBody = async (req: IncomingMessage, rules: BodyRules): Promise<Buffer> => {
  if (declaredLength(req) > mostDrained) throw tooLarge(rules, true);
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(tooSlow(rules)), rules.timeoutMs);
  try {
    return await Promise.race([collect(req, rules), late]);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    throw new ServiceError('invalid_json', 'The body broke off.', { cause: error });
  } finally {
    clearTimeout(timer);
  }
};

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @throws {ServiceError} `invalid_json` */
const decode = (bytes: Buffer): string => {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  }
};

const requireJson = (ctx: Context): void => {
  const type = ctx.get('content-type');
  const isJson = /^application\/([\w.+-]+\+)?json *(;.*)?$/i.test(type) && !/charset *= *"?(?!utf-?8)/i.test(type);
  const encoding = ctx.get('content-encoding');
  if (isJson && (encoding === '' || encoding === 'identity')) return;
  throw new ServiceError('unsupported_media_type', `The body must be JSON in UTF-8, not ${type || 'of no type'}.`, {
    hint: 'Send the header Content-Type: application/json.',
  });
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
  requireJson(ctx);
  const text = decode(bytes);
  try {
    return { text, value: JSON.parse(text) };
  } catch (error) {
    const message = error instanceof SyntaxError ? error.message : '';
    throw new ServiceError('invalid_json', 'The body is not JSON.', { details: [{ path: '', message }] });
  }
};
