import { joinShort, lengthOf, maxAnswerLength, piecesOf } from '../answer-body.ts';
import { DataError, toDataError } from '../errors.ts';
import { type Setting, answerRequest } from './answer.ts';
import { type RestAnswer, type RestRequest, type Target, targetOf } from './request.ts';
import { parseExactJson } from '#lib/json.ts';
import { type ReadBody, invalidBody, mediaTypeOf, parseJson, textOf } from './payload.ts';

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

/** A request of a batch, as it can be sent from a thread. */
export interface BatchEntry {
  /** In capitals. */
  readonly method: string;
  readonly path: string;
  readonly target: Target;
  readonly queryText: string;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  readonly read?: ReadBody;
}

const maxEntries = 100;
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const wrong = (index: number, what: string): DataError => invalidBody(`Entry ${index} of the batch: ${what}`);

const headersOf = (headers: unknown, index: number): ReadonlyMap<string, string> => {
  if (headers === undefined || headers === null) return new Map();
  if (!isRecord(headers) || Object.values(headers).some((value) => typeof value !== 'string'))
    throw wrong(index, '"headers" must be an object of texts');
  return new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]));
};

/** The body as it would have come by itself: JSON of any kind, or text of another media type. */
const bodyOf = (body: unknown, headers: ReadonlyMap<string, string>): string => {
  if (body === undefined) return '';
  const isJson = /[/+]json$|^application\/vnd\.pgrst\./.test(mediaTypeOf(headers.get('content-type') ?? ''));
  return !isJson && typeof body === 'string' ? body : JSON.stringify(body);
};

const entryOf = (entry: unknown, index: number, withRows: boolean): BatchEntry => {
  if (!isRecord(entry)) throw wrong(index, 'it must be an object {method, path, headers?, body?}');
  const { method, path, headers, body, ...rest } = entry;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw wrong(index, `"${unknown}" is not known`);
  if (typeof method !== 'string' || !methods.has(method.toUpperCase()))
    throw wrong(index, '"method" must be one of HTTP');
  if (typeof path !== 'string') throw wrong(index, '"path" must be a text');
  const cut = path.indexOf('?');
  const target = targetOf(cut === -1 ? path : path.slice(0, cut), withRows);
  if (target === null || target.kind === 'root' || (target.kind === 'function' && target.name === '$batch'))
    throw wrong(index, '"path" must be a table or rpc/{function}, relative to the root of the REST API');
  const given = headersOf(headers, index);
  return {
    method: method.toUpperCase(),
    path,
    target,
    queryText: cut === -1 ? '' : path.slice(cut + 1),
    headers: given,
    body: bodyOf(body, given),
  };
};

/**
 * The requests of a batch; numbers in their bodies stay as they were written.
 * @param withRows whether paths of rows (`films/7`) are known
 * @throws {DataError} PGRST102
 */
export const readEntries = (body: Buffer, withRows: boolean): readonly BatchEntry[] => {
  const entries = parseJson(textOf(body), parseExactJson);
  if (!Array.isArray(entries)) throw invalidBody('A batch is an array of {method, path, headers?, body?}');
  if (entries.length > maxEntries) throw invalidBody(`A batch holds at most ${maxEntries} requests`);
  return entries.map((entry, index) => entryOf(entry, index, withRows));
};
