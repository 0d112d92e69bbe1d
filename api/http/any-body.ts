import type { Context } from 'koa';
import { type BodyRules, type JsonBody, isJsonOrText, jsonBodyOf, readBody } from './body.ts';

/** A body of any media type, as a function gets it. */
export interface GivenBody {
  /** JSON text: the body where it is JSON, the string that a plain text is, else `null`. */
  readonly payload: string;
  /** How the exact bytes follow from the payload; where they do not, they are `bytes`. */
  readonly kind: 'none' | 'payload' | 'text' | 'bytes';
  /** Base64; empty unless `kind` is `bytes`. */
  readonly bytes: string;
}

export const noGivenBody: GivenBody = { payload: 'null', kind: 'none', bytes: '' };

/**
 * JSON and text are decoded strictly, and what is decoded so is encoded to the same bytes again: they need not be kept
 * twice. Everything else is not looked into here.
 * @throws {ServiceError} as `readJsonBody`, for what claims to be JSON or text
 */
export const readAnyBody = async (
  ctx: Context,
  rules: BodyRules,
): Promise<JsonBody & { readonly value: GivenBody }> => {
  const bytes = await readBody(ctx.req, rules);
  if (bytes.length === 0) return { text: '', value: noGivenBody };
  const type = ctx.get('content-type');
  if (!isJsonOrText(type)) {
    const value: GivenBody = { payload: 'null', kind: 'bytes', bytes: bytes.toString('base64') };
    return { text: `${type}\n${value.bytes}`, value };
  }
  const { text } = await jsonBodyOf(ctx, rules, bytes);
  const kind = type.toLowerCase().startsWith('text/plain') ? 'text' : 'payload';
  return { text, value: { payload: text, kind, bytes: '' } };
};
