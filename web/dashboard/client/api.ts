import { parseExact } from './exact-json.ts';
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

const unreachable = (): ApiError =>
  new ApiError(0, {
    code: 'unreachable',
    message: 'The platform cannot be reached.',
    hint: 'Check the network. Nothing that you typed is lost; try again.',
  });

type Name = keyof Operations;
type Query<N extends Name> = Operations[N]['query'];
type Body<N extends Name> = Operations[N]['body'];

/** The input of a call. A body is required exactly where the operation has one. */
export type CallOptions<N extends Name> = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Query<N>;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
} & (Body<N> extends undefined ? { readonly body?: undefined } : { readonly body: Body<N> });

const addressOf = (
  path: string,
  params: Readonly<Record<string, string>> = {},
  query: Readonly<Record<string, unknown>> = {},
): string => {
  const at = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? at : `${at}?${text}`;
};

const readBody = async (response: Response, asWritten: boolean): Promise<unknown> => {
  const text = await response.text();
  if (text === '') return undefined;
  try {
    return parseExact(text, asWritten);
  } catch {
    return { message: `The server answered ${response.status} with something that is not JSON.` };
  }
};

/**
 * A request to any address of the platform, with the cookie.
 * @param asWritten numbers of the answer are shown as they are written
 * @throws {ApiError}
 */
export const send = async (
  at: string,
  init: RequestInit,
  asWritten = false,
): Promise<{ response: Response; body: unknown }> => {
  const response = await fetch(at, { credentials: 'same-origin', ...init }).catch((error: unknown) => {
    throw init.signal?.aborted === true ? error : unreachable();
  });
  const body = await readBody(response, asWritten);
  if (!response.ok) {
    const error = new ApiError(response.status, body ?? {});
    // A wrong password in a form ends no sign-in.
    const isSignedOut = error.status === 401 && error.code !== 'invalid_credentials';
    if (isSignedOut) globalThis.dispatchEvent(new Event('signed-out'));
    if (error.status === 403) globalThis.dispatchEvent(new Event('refused'));
    throw error;
  }
  return { response, body };
};

/** Calls an operation of the API. @throws {ApiError} */
export const call = async <N extends Name>(name: N, options: CallOptions<N>): Promise<Operations[N]['answer']> => {
  const [method = '', path = ''] = name.split(' ');
  const { params, query, body, signal, headers = {} } = options;
  const init: RequestInit = {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  };
  return (await send(addressOf(path, params, query), init)).body as Operations[N]['answer'];
};
