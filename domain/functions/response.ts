/** The status line and headers that a function answers with, and a whole answer as its result. */

export interface ResponseHead {
  readonly status: number;
  /** Names in lower case; only `set-cookie` may stand there more than once. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** A response as the result of a run (contract, section 12). */
export interface ResponseResult {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Base64 where it is no UTF-8; null: it was streamed to its caller and is not kept. */
  readonly body: string | null;
}

export type ResponseKind = 'text' | 'base64' | 'stream';

/** Headers of one connection only (RFC 9110, 7.6.1), and those that follow from the body. */
const notItsOwn = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const maxHeaders = 100;
const maxHeaderBytes = 16 * 1024;
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// oxlint-disable-next-line no-control-regex -- these are the characters that would end a header
const badValue = /[\0\r\n]|[^\t\x20-\x7e\x80-\xff]/;

const isPair = (pair: unknown): pair is [string, string] =>
  Array.isArray(pair) && pair.length === 2 && typeof pair[0] === 'string' && typeof pair[1] === 'string';

const problemOf = (headers: readonly (readonly [string, string])[]): string | null => {
  if (headers.length > maxHeaders) return `has more than ${maxHeaders} headers`;
  const bytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
  if (bytes > maxHeaderBytes) return `has headers of more than ${maxHeaderBytes / 1024} KB`;
  const bad = headers.find(([name, value]) => !token.test(name) || badValue.test(value));
  return bad === undefined ? null : `has a header that is not valid: ${JSON.stringify(bad[0].slice(0, 100))}`;
};

/**
 * The head of a response that user code has made: checked, without the headers that are not its to set.
 * @returns the reason why there is none, as the end of a sentence that begins with "The response"
 */
export const responseHead = (status: unknown, headers: unknown): ResponseHead | string => {
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599)
    return 'has a status that is not between 200 and 599';
  // Counted first: a list of a million headers is not looked through.
  if (!Array.isArray(headers) || headers.length > 10 * maxHeaders) return `has more than ${maxHeaders} headers`;
  if (!headers.every(isPair)) return 'has headers that are no texts';
  const given = headers.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  const problem = problemOf(given);
  return problem ?? { status, headers: given.filter(([name]) => !notItsOwn.has(name)) };
};

const partsOf = (text: string): { status?: unknown; headers?: unknown; body?: unknown } | null => {
  const value: unknown = JSON.parse(text);
  return typeof value === 'object' ? value : null;
};

/**
 * A response that user code has made and that came whole, `{status, headers: [[name, value]], body}` as JSON text.
 * @param form how the body is written
 * @returns the reason why there is none, as `responseHead` does
 */
export const wholeResponse = (
  text: string,
  form: 'text' | 'base64',
): { readonly head: ResponseHead; readonly body: Buffer } | string => {
  const { status, headers, body } = partsOf(text) ?? {};
  const head = responseHead(status, headers);
  if (typeof head === 'string') return head;
  return { head, body: Buffer.from(typeof body === 'string' ? body : '', form === 'text' ? 'utf8' : 'base64') };
};

/** By name; of several values of one name they are joined, cookies excepted. */
export const headersOf = ({ headers }: ResponseHead): ResponseResult['headers'] => {
  const joined = new Map<string, string | string[]>();
  for (const [name, value] of headers) {
    const present = joined.get(name);
    if (name === 'set-cookie') joined.set(name, [...(Array.isArray(present) ? present : []), value]);
    else joined.set(name, present === undefined ? value : `${String(present)}, ${value}`);
  }
  return Object.fromEntries(joined);
};

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const textOf = (bytes: Buffer): string | null => {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
};

/** A response as the result of its run, JSON text. @param body null: it was streamed */
export const resultOf = (
  head: ResponseHead,
  body: Buffer | null,
): { readonly json: string; readonly kind: ResponseKind } => {
  const text = body && textOf(body);
  const result: ResponseResult = {
    status: head.status,
    headers: headersOf(head),
    body: body === null ? null : (text ?? body.toString('base64')),
  };
  const kind = text === null ? 'base64' : 'text';
  return { json: JSON.stringify(result), kind: body === null ? 'stream' : kind };
};
