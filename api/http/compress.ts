import { pipeline } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib';
import type { Context } from 'koa';
import type { Endpoint } from '#api/endpoint.ts';
import { PieceStream } from './piece-stream.ts';

/** Smaller answers fit into one packet as they are. */
const minLength = 1024;

/*
 * The work is done by the threads of libuv, not by the event loop. Quick settings, as 1.3 MB of rows show: brotli 1
 * takes 11 ms and leaves 17 % (3: 21 ms, 15 %; 5: 53 ms, 12 %), gzip 3 takes 19 ms and leaves 18 % (6: 35 ms; 9: 96 ms).
 */
const gzipOptions = { level: 3 };
const brotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };

const gzipped = promisify(gzip);
const brotlied = promisify(brotliCompress);

/**
 * Rows and lists of a project. Answers that hold secrets are left out, with the areas that make them: the length of a
 * compressed answer tells who can watch the wire whether a guess that the answer repeats is a part of it (BREACH).
 */
const areas = new Set(['data', 'database', 'functions', 'jobs', 'events', 'webhooks', 'flags', 'cron', 'usage']);

/** Notes whether the answer of this endpoint may be compressed. */
export const noteCompressible = (ctx: Context, { area, method, access }: Endpoint): void => {
  const isData = area === 'data' || area === 'database';
  ctx.state['compressible'] = areas.has(area) && (isData || (method === 'get' && access.kind === 'project'));
};

const isJson = (ctx: Context): boolean => /^application\/(?:[\w.+-]*\+)?json\b/.test(ctx.type);

/** A strong ETag stands for exact bytes, and those of a compressed answer are others. */
const hasStrongTag = (ctx: Context): boolean => {
  const tag = ctx.res.getHeader('ETag');
  return tag !== undefined && !String(tag).startsWith('W/');
};

const mayCompress = (ctx: Context): boolean =>
  ctx.state['compressible'] === true &&
  ctx.method !== 'HEAD' &&
  isJson(ctx) &&
  !ctx.res.hasHeader('Content-Encoding') &&
  !ctx.res.hasHeader('Set-Cookie') &&
  !hasStrongTag(ctx);

const maxHeaderLength = 1000;

/**
 * The first of these encodings that the client takes best; false: none. Only the beginning of a long header is read:
 * all 190 KB that a request may have would take 50 ms.
 */
export const acceptedEncoding = (ctx: Context, offered: readonly string[]): string | false => {
  const { headers } = ctx.req;
  const given = headers['accept-encoding'];
  if (typeof given === 'string' && given.length > maxHeaderLength)
    headers['accept-encoding'] = given.slice(0, Math.max(0, given.lastIndexOf(',', maxHeaderLength)));
  return ctx.acceptsEncodings([...offered]);
};

/** Compresses an answer that is set, where its client takes that. What is sent as it is made stays as it is. */
export const compressAnswer = async (ctx: Context): Promise<void> => {
  const { body, type } = ctx;
  const isText = typeof body === 'string' && Buffer.byteLength(body) > minLength;
  if ((!isText && !(body instanceof PieceStream)) || !mayCompress(ctx)) return;
  ctx.vary('Accept-Encoding');
  const encoding = (['br', 'gzip'] as const).find((one) => acceptedEncoding(ctx, [one]) === one);
  if (encoding === undefined) return;
  const contentType = String(ctx.res.getHeader('Content-Type') ?? type);
  if (body instanceof PieceStream) {
    const into = encoding === 'br' ? createBrotliCompress(brotliOptions) : createGzip(gzipOptions);
    // A reader that goes away ends both: koa closes the body that it has, and with it the one before.
    pipeline(body, into, () => undefined);
    ctx.body = into;
    ctx.remove('Content-Length');
  } else {
    const bytes = Buffer.from(body);
    ctx.body = await (encoding === 'br' ? brotlied(bytes, brotliOptions) : gzipped(bytes, gzipOptions));
  }
  ctx.set('Content-Type', contentType);
  ctx.set('Content-Encoding', encoding);
};
