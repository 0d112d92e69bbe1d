import type { Context } from 'koa';
import { PieceStream, wholeAnswer } from './piece-stream.ts';
import type { Reply } from './reply.ts';

/** The parts of a body that is too long to be handled at once; null for any other. */
const longParts = ({ body, type }: Reply): readonly string[] | null => {
  const parts = typeof body === 'string' && type !== undefined ? [body] : body;
  if (!Array.isArray(parts)) return null;
  const texts = parts as readonly string[];
  return texts.reduce((sum, { length }) => sum + length, 0) > wholeAnswer ? texts : null;
};

const isTexts = (body: Reply['body']): body is readonly string[] => Array.isArray(body);

/** Sets what is answered. A long text goes out in pieces: koa would encode all of it to know its length. */
export const setReply = (ctx: Context, reply: Reply): void => {
  const { status, type, body } = reply;
  ctx.status = status;
  // Empty: the call has set the header itself, which koa would add a charset to.
  if (type !== undefined && type !== '') ctx.type = type;
  const parts = longParts(reply);
  if (parts === null) {
    ctx.body = isTexts(body) ? body.join('') : body;
  } else if (ctx.method === 'HEAD') {
    ctx.body = '';
    ctx.length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  } else {
    ctx.body = new PieceStream(parts);
  }
};
