import { z } from 'zod';
import { invocation, monthlyCaps } from '#domain/functions/functions.ts';
import { versionOfRun } from '#domain/functions/invocations.ts';
import { headersOf } from '#domain/functions/response.ts';
import { bareResult, responseOf } from '#domain/functions/run-report.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';
import type { FunctionCaller, FunctionRequest, RunStatus } from '#queues/function-invoke.ts';
import { withKey } from '../../access.ts';
import { hasForeignAuthorization } from '../../auth/for-function.ts';
import type { BaseCall, DataCall } from '../../call.ts';
import { type Endpoint, type JobEnd, type Method, RawReply, jobEndpoint } from '../../endpoint.ts';
import type { GivenBody } from '../../http/any-body.ts';
import { answerHeaders, passedHeaders } from '../../http/function-headers.ts';
import { setServerTiming } from '../../http/server-timing.ts';
import { restUrl } from '../../http/rest-url.ts';
import { runAnswer } from '../../run-answer.ts';

/** The answer of public callers for a run without success. */
const publicErrors = {
  error: 'function_error',
  cancelled: 'function_error',
  timeout: 'function_timeout',
  memory_limit: 'resource_limit',
  cpu_limit: 'resource_limit',
  result_too_large: 'resource_limit',
  crashed: 'resource_limit',
} as const satisfies Record<Exclude<RunStatus, 'success'>, ErrorCode>;

const isFault = (code: string): code is keyof typeof publicErrors => Object.hasOwn(publicErrors, code);

const slug = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/);

type Calls = BaseCall & DataCall;

/** The caller as the function sees it. */
export const functionCaller = ({
  key,
  caller,
  isPublic,
}: Pick<DataCall, 'key' | 'caller' | 'isPublic'>): FunctionCaller => {
  if (isPublic) return { kind: 'public', key_id: null, user: null };
  const claims = JSON.parse(caller.claims) as Record<string, unknown>;
  const isUser = typeof claims['sub'] === 'string';
  return { kind: isUser ? 'user' : (key?.kind ?? 'user'), key_id: key?.id ?? null, user: isUser ? claims : null };
};

/** The part of the path below the slug, as it came. */
const below = (path: string, root: string): string => {
  const rest = path.split('/').slice(root.split('/').length).join('/');
  return `/${rest}`;
};

const functionRequest = (call: Calls, root: string, name: string, { kind, bytes }: GivenBody): FunctionRequest => {
  const { http, deps, ip, project } = call;
  const { method, path, queryText: query, headers } = http;
  const { authorization = '' } = headers;
  // With credentials of ours a function may be any; then nothing in the header is another service's.
  const foreign = authorization !== '' && hasForeignAuthorization(authorization, deps.tokens);
  return {
    method,
    base: `${restUrl(project.ref, call)}/functions/v1/${name}`,
    path: below(path, root),
    query,
    headers: passedHeaders(headers, { isOwnHost: http.isOwnHost, foreign }),
    ip,
    kind,
    body: bytes,
  };
};

const setHeaders = ({ setHeader, http }: Calls, headers: Parameters<typeof answerHeaders>[0]): void => {
  for (const [name, value] of answerHeaders(headers, http)) setHeader(name, value);
};

/** A run that failed is told, too. Callers without a secret key learn nothing of what a function does. */
const setTiming = ({ outcome: { result } }: JobEnd, call: Calls): void => {
  if (call.caller.role === 'service' && result !== null) setServerTiming(result, call);
};

const withoutBody = new Set([204, 205, 304]);

const notKept = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'The answer was sent while the function ran, and broke off.');

/** The answer to a run that succeeded: its response as it is, or its result as JSON. */
const answerOf = (answer: string, call: Calls): RawReply => {
  const response = responseOf(answer);
  if (response === null) return new RawReply(bareResult(answer));
  const { status, headers, body } = response;
  if (body === null) throw notKept();
  setHeaders(call, headers);
  return new RawReply(withoutBody.has(status) ? null : body, null, status);
};

const failureOf = (done: JobEnd, { caller }: Calls): ServiceError => {
  const answer = runAnswer(done);
  const code = done.outcome.error?.code ?? '';
  if (!isFault(code)) return new ServiceError('internal', 'The function could not be run.');
  const { error } = JSON.parse(answer) as { error?: unknown };
  return new ServiceError(publicErrors[code], `The function failed (${code}).`, {
    ...(caller.role === 'service' && error !== undefined && { details: error }),
  });
};

interface Address {
  /** Up to and with the slug. */
  readonly root: string;
  readonly params: z.ZodObject<{ slug: z.ZodString }>;
}

const addresses: readonly Address[] = [
  { root: '/api/functions/{slug}', params: z.object({ slug }) },
  { root: '/p/{ref}/functions/v1/{slug}', params: z.object({ ref: z.string(), slug }) },
];

const methods = {
  post: 'Call a function by key, by user token, or without; the body is its payload',
  get: 'Call a function; what it answers is the answer',
  put: 'Call a function with PUT',
  patch: 'Call a function with PATCH',
  delete: 'Call a function with DELETE',
} as const satisfies Partial<Record<Method, string>>;

type CallMethod = keyof typeof methods;

interface Route extends Address {
  readonly method: CallMethod;
  /** Below the slug, at any depth. */
  readonly isDeep: boolean;
}

const callEndpoint = ({ root, params, method, isDeep }: Route): Endpoint =>
  jobEndpoint({
    method,
    path: isDeep ? `${root}/{path}` : root,
    ...(isDeep && { deep: 'raw' }),
    area: 'functions',
    summary: isDeep ? `${methods[method]}; below its slug` : methods[method],
    access: { ...withKey('secret', 'publishable', 'user'), evenInactive: true, orPublic: true },
    rate: 'function',
    params: isDeep ? params.extend({ path: z.string() }) : params,
    bodyLimit: 'function',
    status: 200,
    anyBody: true,
    ...(method !== 'get' && { body: z.unknown() }),
    response: z.unknown(),
    request: ({ params: { slug: name }, body }, call) => {
      const { deps, project, requestId, setHeader, http } = call;
      const given = body as GivenBody;
      return invocation(deps.functionVersions, project, {
        by: { slug: name },
        payload: given.payload,
        trigger: 'api',
        requestId,
        caps: monthlyCaps(deps.config),
        caller: functionCaller(call),
        request: functionRequest(call, root, name, given),
        // An answer that is to be repeated has to be kept.
        streams: http.headers['idempotency-key'] === undefined,
        onVersion: (version) => setHeader('X-Function-Version', String(version)),
      });
    },
    accepted: async ({ jobId, replayed }, { deps, setHeader }) => {
      setHeader('X-Invocation-Id', jobId);
      const version = replayed ? await versionOfRun(deps.db, jobId) : undefined;
      if (version !== undefined) setHeader('X-Function-Version', String(version));
    },
    answer: (done, call) => {
      setTiming(done, call);
      if (done.outcome.status !== 'succeeded') throw failureOf(done, call);
      return Promise.resolve(answerOf(runAnswer(done), call));
    },
    answerStream: (stream, call) => {
      setHeaders(call, headersOf(stream.head));
      return new RawReply(stream, null, stream.head.status);
    },
  });

/** Functions at their public addresses (contract, section 12): any method, any media type, and any path below the slug. */
export const publicCallEndpoints: readonly Endpoint[] = addresses.flatMap((address) =>
  (Object.keys(methods) as CallMethod[]).flatMap((method) => [
    callEndpoint({ ...address, method, isDeep: false }),
    callEndpoint({ ...address, method, isDeep: true }),
  ]),
);
