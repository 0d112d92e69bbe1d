import { setTimeout as pause } from 'node:timers/promises';
import { type Exit, type ErrorBody, Failure, exits, failed, interrupted } from './errors.ts';
import { cleanLine } from './text.ts';

export interface Request {
  readonly method?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null: as long as it takes, for streams. */
  readonly timeoutMs?: number | null;
  /** Statuses that are no failure, besides 2xx. */
  readonly accept?: readonly number[];
  /** Whether sending the request twice has the effect of sending it once; left out: true for GET, HEAD and PUT. */
  readonly isIdempotent?: boolean;
}

/** An address of a platform and the way to it. */
export interface Target {
  readonly url: string;
  readonly token?: string;
  readonly userAgent: string;
  readonly signal: AbortSignal;
}

const usualTimeoutMs = 120_000;

/** Statuses with an exit code of their own; all others are 1. */
const exitOf: Readonly<Record<number, Exit>> = {
  401: exits.signedOut,
  404: exits.notFound,
  409: exits.conflict,
  412: exits.conflict,
  422: exits.conflict,
};

const causeOf = (error: unknown): string => {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code: unknown = typeof cause === 'object' && cause !== null ? Reflect.get(cause, 'code') : undefined;
  if (typeof code === 'string') return code;
  return cause instanceof Error ? cause.message : 'no answer';
};

const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the name cannot be looked up; is there a network?',
  ENETUNREACH: 'there is no network',
  EHOSTUNREACH: 'there is no way to the host',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  UND_ERR_HEADERS_TIMEOUT: 'it does not answer',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself; set NODE_EXTRA_CA_CERTS',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is signed by itself; set NODE_EXTRA_CA_CERTS',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate cannot be verified; set NODE_EXTRA_CA_CERTS',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
};

/** The failure of a request that got no answer. */
const unreachable = (url: string, error: unknown, signal: AbortSignal): Failure => {
  if (signal.aborted) return interrupted();
  if (error instanceof Error && error.name === 'TimeoutError') {
    return failed('unreachable', `${url} did not answer in time.`);
  }
  const cause = causeOf(error);
  return failed('unreachable', `${url} cannot be reached: ${causes[cause] ?? cleanLine(cause)}.`);
};

const noPlatform = (url: string, response: Response): Failure => {
  const kind = cleanLine(response.headers.get('content-type') ?? 'no content type').split(';', 1)[0] ?? '';
  return failed(
    'no_platform',
    `${url} answered with status ${response.status} (${kind}), not as plinth does.`,
    'Is the address right? A proxy may want a sign-in first.',
  );
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Undefined: the answer does not have plinth's form. */
const bodyOf = async (response: Response): Promise<ErrorBody | undefined> => {
  const text = await response.text().catch(() => '');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value) || typeof value['code'] !== 'string' || typeof value['message'] !== 'string') return undefined;
  return {
    code: value['code'],
    message: value['message'],
    details: value['details'] ?? null,
    hint: textOf(value['hint']),
    request_id: textOf(value['request_id']),
  };
};

const withDetails = ({ message, details }: ErrorBody): string => {
  if (!Array.isArray(details)) return message;
  const lines = details.flatMap((detail: unknown) =>
    isObject(detail) && typeof detail['message'] === 'string' ? [`${String(detail['path'])} ${detail['message']}`] : [],
  );
  return [message, ...lines.slice(0, 20).map((line) => `  ${line}`)].join('\n');
};

const refusalOf = async (url: string, path: string, response: Response): Promise<Failure> => {
  const body = await bodyOf(response);
  if (body === undefined) return noPlatform(url, response);
  if (response.status === 404 && body.message === 'There is nothing at this path.') {
    return failed(
      'not_supported',
      `${url} does not know ${path.split('?', 1)[0] ?? path}: it runs an older plinth than this command line.`,
      'Update the platform, or use the command line that came with it.',
    );
  }
  const exit = exitOf[response.status] ?? exits.failed;
  const hint = exit === exits.signedOut ? 'Sign in with `plinth login`.' : body.hint;
  return new Failure(exit, body.code, withDetails(body), {
    ...body,
    ...(hint !== null && hint !== undefined && { hint }),
  });
};

const signalsOf = (signal: AbortSignal, timeoutMs: number | null): AbortSignal =>
  timeoutMs === null ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

const headersOf = ({ token, userAgent }: Target, { body, headers }: Request): Record<string, string> => ({
  'user-agent': userAgent,
  accept: 'application/json',
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
  ...(body !== undefined && { 'content-type': 'application/json' }),
  ...headers,
});

const ask = async (target: Target, path: string, request: Request): Promise<Response> => {
  const { method = 'GET', body, raw, timeoutMs = usualTimeoutMs } = request;
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  try {
    return await fetch(`${target.url}${path}`, {
      method,
      redirect: 'manual',
      headers: headersOf(target, request),
      signal: signalsOf(target.signal, timeoutMs),
      ...(payload !== undefined && { body: payload as NonNullable<RequestInit['body']> }),
      // Needed for a body that is a stream; the types do not know it.
      ...({ duplex: 'half' } as object),
    });
  } catch (error) {
    throw unreachable(target.url, error, target.signal);
  }
};

const maxTries = 4;
const usualWaitMs = 1000;
const maxWaitMs = 10_000;

const isRetryable = ({ raw, method = 'GET', isIdempotent }: Request, status: number): boolean => {
  if (raw !== undefined && !(raw instanceof Uint8Array)) return false;
  // A request that is answered 429 has had no effect. One that is answered 503 may have had its effect.
  return status === 429 || (status === 503 && (isIdempotent ?? ['GET', 'HEAD', 'PUT'].includes(method)));
};

/** How long to wait before the request is retried; undefined when it must not be retried. */
const retryDelayMs = (request: Request, { status, headers }: Response): number | undefined => {
  if (!isRetryable(request, status)) return undefined;
  const seconds = Number.parseInt(headers.get('retry-after') ?? '', 10);
  const waitMs = Number.isNaN(seconds) ? usualWaitMs : seconds * 1000;
  return waitMs <= maxWaitMs ? waitMs : undefined;
};

/**
 * Sends a request, and retries it for some seconds while the platform is busy. A redirect is refused: credentials
 * are for the address that they belong to.
 * @throws {Failure}
 */
export const send = async (target: Target, path: string, request: Request = {}): Promise<Response> => {
  for (let tries = 1; ; tries += 1) {
    const response = await ask(target, path, request);
    if (response.ok || request.accept?.includes(response.status)) return response;
    if (response.status >= 300 && response.status < 400) throw noPlatform(target.url, response);
    const waitMs = tries < maxTries ? retryDelayMs(request, response) : undefined;
    if (waitMs === undefined) throw await refusalOf(target.url, path, response);
    await response.body?.cancel();
    await pause(waitMs, undefined, { signal: target.signal }).catch(() => {
      throw interrupted();
    });
  }
};

/**
 * The JSON of an answer.
 * @throws {Failure} also for an answer that is not JSON: a proxy's page comes with status 200, too
 */
export const jsonOf = async <T>(target: Target, response: Response): Promise<T> => {
  if (response.status === 204) return undefined as T;
  if (!(response.headers.get('content-type') ?? '').includes('json')) throw noPlatform(target.url, response);
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw unreachable(target.url, error, target.signal);
  }
};

/** The text of an answer, which is of that type. */
export const textAnswer = async (target: Target, response: Response, type: string): Promise<string> => {
  if (!(response.headers.get('content-type') ?? '').startsWith(type)) throw noPlatform(target.url, response);
  return response.text().catch((error: unknown) => {
    throw unreachable(target.url, error, target.signal);
  });
};
