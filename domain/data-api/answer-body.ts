/** A text, or the pieces of a long one, in order: joining them would block the event loop. */
export type AnswerBody = string | readonly string[];

/** The body as one text, where it has to be one. */
export const wholeBody = (body: AnswerBody): string => (typeof body === 'string' ? body : body.join(''));

export const piecesOf = (body: AnswerBody): readonly string[] => (typeof body === 'string' ? [body] : body);

/** Characters that one answer holds together, which is kept whole until its transaction is committed. */
export const maxAnswerLength = 30 * 1024 * 1024;

/** In characters. */
export const lengthOf = (body: AnswerBody): number => piecesOf(body).reduce((sum, { length }) => sum + length, 0);

/** Characters of one piece that was put together of short ones. */
const joinedLength = 64 * 1024;

/** The text of all pieces, in fewer: neighbours that are short become one, because each piece is a write of its own. */
export const joinShort = (pieces: readonly string[]): AnswerBody => {
  const joined: string[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (last !== undefined && last.length + piece.length <= joinedLength) joined[joined.length - 1] = last + piece;
    else joined.push(piece);
  }
  return joined.length > 1 ? joined : (joined[0] ?? '');
};

/** A JSON object of values that are JSON. */
export const jsonObject = (fields: readonly (readonly [key: string, json: AnswerBody])[]): AnswerBody => {
  const pieces = fields.flatMap(([key, json], index) => [
    `${index === 0 ? '' : ','}${JSON.stringify(key)}:`,
    ...piecesOf(json),
  ]);
  return joinShort(['{', ...pieces, '}']);
};

/** A JSON list of values that are JSON. */
export const jsonList = (values: readonly AnswerBody[]): AnswerBody => {
  const pieces = values.flatMap((json, index) => (index === 0 ? piecesOf(json) : [',', ...piecesOf(json)]));
  return joinShort(['[', ...pieces, ']']);
};
