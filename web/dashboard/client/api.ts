import { parseExact } from './exact-json.ts';
import { untilReachable } from './reach.ts';
import type { Operations } from './types.ts';

/** An error of the API, in its one form. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | null;
  readonly details: unknown;
  readonly requestId: string | null;

  constructor(status: number, body: Partial<Record<string, unknown>>) {
    super(typeof body['message'] === 'string' ? body['message'] : `The server answered ${status}.`);
    this.status = status;
    this.code = typeof body['code'] === 'string' ? body['code'] : 'unknown';
    this.hint = typeof body['hint'] === 'string' ? body['hint'] : null;
    this.details = body['details'] ?? null;
    this.requestId = typeof body['request_id'] === 'string' ? body['request_id'] : null;
  }
}

/** The error of a request that got no answer; from now on the platform is asked whether it answers. */
export const unreachable = (): ApiError => {
  void untilReachable();
  return new ApiError(0, {
    code: 'unreachable',
    message: 'The platform cannot be reached.',
    hint: 'Check the network. Nothing that you typed is lost; try again.',
  });
};

interface Operation {
  readonly query: object | undefined;
  readonly body: unknown;
  readonly answer: unknown;
}

/** The input of a call. A body is required exactly where the operation has one. */
type CallOptions<O extends Operation> = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: O['query'];
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
} & (O['body'] extends undefined ? { readonly body?: undefined } : { readonly body: O['body'] });

const addressOf = (path: string, params: Readonly<Record<string, string>> = {}, query: object = {}): string => {
  const at = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? at : `${at}?${text}`;
};

/** A gateway that does not reach the platform answers so, with a page of its own. */
const isOfGateway = (status: number): boolean => status >= 502 && status <= 504;

/** @throws {ApiError} when a gateway answered in place of the platform */
const parsedBody = (status: number, text: string, asWritten: boolean): unknown => {
  if (text === '') return undefined;
  try {
    return parseExact(text, asWritten);
  } catch {
    if (isOfGateway(status)) throw unreachable();
    return { message: `The server answered ${status} with something that is not JSON.` };
  }
};

/** The error of a request that was ended by its caller, or got no answer. */
const failureOf = (error: unknown, { signal }: RequestInit): unknown =>
  signal?.aborted === true ? error : unreachable();

/** @throws {ApiError} when the answer breaks off */
const readBody = async (response: Response, init: RequestInit, asWritten = false): Promise<unknown> => {
  const text = await response.text().catch((error: unknown) => {
    throw failureOf(error, init);
  });
  return parsedBody(response.status, text, asWritten);
};

/**
 * A request to any address of the platform, with the cookie; the answer is not read yet.
 * @throws {ApiError}
 */
export const open = async (at: string, init: RequestInit): Promise<Response> => {
  const response = await fetch(at, { credentials: 'same-origin', ...init }).catch((error: unknown) => {
    throw failureOf(error, init);
  });
  if (response.ok) return response;
  const error = new ApiError(response.status, (await readBody(response, init)) ?? {});
  // A wrong password in a form ends no sign-in.
  const isSignedOut = error.status === 401 && error.code !== 'invalid_credentials';
  if (isSignedOut) globalThis.dispatchEvent(new Event('signed-out'));
  if (error.status === 403) globalThis.dispatchEvent(new Event('refused'));
  throw error;
};

/**
 * The same, and its answer.
 * @param asWritten numbers of the answer are shown as they are written
 * @throws {ApiError}
 */
export const send = async (
  at: string,
  init: RequestInit,
  asWritten = false,
): Promise<{ response: Response; body: unknown }> => {
  const response = await open(at, init);
  return { response, body: await readBody(response, init, asWritten) };
};

/** A function that calls the operations of a document by method and path. It throws an {@link ApiError}. */
export const callerOf =
  <All extends { readonly [N in keyof All]: Operation }>() =>
  async <N extends keyof All & string>(name: N, options: CallOptions<All[N]>): Promise<All[N]['answer']> => {
    const [method = '', path = ''] = name.split(' ');
    const { params, query, body, signal, headers = {} } = options;
    const init: RequestInit = {
      method,
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    };
    return (await send(addressOf(path, params, query), init)).body;
  };

/** Calls an operation that the dashboard may use. @throws {ApiError} */
export const call = callerOf<Operations>();
