import { joinShort, lengthOf, maxAnswerLength, piecesOf } from '#domain/data-api/answer-body.ts';
import { DataError } from '#domain/data-api/errors.ts';
import { toDataError } from '#domain/data-api/failure.ts';
import { type Setting, answerRequest } from './answer.ts';
import type { RestAnswer, RestRequest } from './request.ts';

/** Ends the transaction of a batch: one of its requests failed. */
export class BatchStopped extends Error {
  override readonly name = 'BatchStopped';
  readonly index: number;
  readonly answer: RestAnswer;

  constructor(index: number, answer: RestAnswer, cause: unknown) {
    super(`request ${index} of a batch failed`, { cause });
    this.index = index;
    this.answer = answer;
  }
}

const json = 'application/json; charset=utf-8';

const errorAnswer = ({ status, code, message, details, hint, headers }: DataError): RestAnswer => ({
  status,
  headers,
  type: json,
  body: JSON.stringify({ code, message, details, hint }),
});

// The headers of a function that was called before in the same transaction.
const forgetOwnAnswer = {
  text: `select set_config('response.status', '', true), set_config('response.headers', '', true)`,
  params: [],
};

const tooLong = (): DataError =>
  new DataError(400, '54000', 'The answers of the batch are too large together.', {
    hint: 'Ask for fewer rows or columns, or for none: Prefer: return=minimal.',
  });

const answerEntry = async (request: RestRequest, setting: Setting): Promise<RestAnswer> => {
  if (request.target.kind === 'function') await setting.executor.one('write', forgetOwnAnswer);
  return answerRequest(request, setting);
};

/**
 * Answers the requests of a batch one after the other, within the transaction of the executor.
 * @throws {BatchStopped} at the first that fails: nothing of the batch may stay
 */
export const answerBatch = async (
  requests: readonly RestRequest[],
  setting: Setting,
): Promise<readonly RestAnswer[]> => {
  const answers: RestAnswer[] = [];
  let length = 0;
  for (const [index, request] of requests.entries()) {
    try {
      answers.push(await answerEntry(request, setting));
    } catch (error) {
      const known = toDataError(error, setting.caller);
      if (!(known instanceof DataError)) throw error;
      throw new BatchStopped(index, errorAnswer(known), error);
    }
    const last = answers.at(-1);
    if (last !== undefined && last.status >= 400) throw new BatchStopped(index, last, null);
    length += lengthOf(last?.body ?? '');
    if (length > maxAnswerLength) throw new BatchStopped(index, errorAnswer(tooLong()), null);
  }
  return answers;
};

const undone = (index: number): RestAnswer =>
  errorAnswer(
    new DataError(424, 'rolled_back', `Nothing of the batch was done, because its request ${index} failed.`, {
      hint: 'Requests are numbered from 0.',
    }),
  );

/** The answer of a batch that was undone: the failure, and that the other requests did not happen. */
export const stoppedAnswers = ({ index, answer }: BatchStopped, length: number): readonly RestAnswer[] =>
  Array.from({ length }, (_, at) => (at === index ? answer : undone(index)));

const bodyPieces = ({ type, body }: RestAnswer): readonly string[] => {
  if (body === '') return ['null'];
  if (type.includes('json')) return piecesOf(body);
  // No character is split between two pieces, so each is a part of the string.
  return ['"', ...piecesOf(body).map((piece) => JSON.stringify(piece).slice(1, -1)), '"'];
};

/** The answers as one: bodies are passed through, not read. */
export const batchAnswer = (answers: readonly RestAnswer[]): RestAnswer => {
  const pieces = answers.flatMap((answer, index) => {
    const headers = { ...(answer.type !== '' && { 'Content-Type': answer.type }), ...answer.headers };
    const start = `${index === 0 ? '' : ','}{"status":${answer.status},"headers":${JSON.stringify(headers)},"body":`;
    return [start, ...bodyPieces(answer), '}'];
  });
  return { status: 200, headers: {}, type: json, body: joinShort(['[', ...pieces, ']']) };
};
