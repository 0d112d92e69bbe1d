import { z } from 'zod';
import { bareResult } from '#domain/functions/run-report.ts';
import { invocation, monthlyCaps } from '#domain/functions/functions.ts';
import { versionOfRun } from '#domain/functions/invocations.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';
import { parseExactJson } from '#lib/json.ts';
import { scanJson } from '#lib/json-scan.ts';
import { type FunctionCaller, type RunStatus, functionInvoke } from '#queues/function-invoke.ts';
import { inProject, withKey } from '../../access.ts';
import type { DataCall } from '../../call.ts';
import { type Endpoint, RawReply, jobEndpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { runAnswer } from '../../run-answer.ts';

const area = 'functions';

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

const anySize = { maxParts: Infinity, maxDepth: 1000 };

const isFault = (code: string): code is keyof typeof publicErrors => Object.hasOwn(publicErrors, code);

/** Builds nothing: a payload of 6 MB may be two million objects. */
const isJson = (text: string): boolean => scanJson(Buffer.from(text), anySize).verdict === 'valid';

/**
 * The payload's own text out of a body that was found to be `{"payload": …}`: as it came, numbers that JavaScript
 * cannot hold included.
 */
const payloadText = (bodyText: string): string => {
  const inside = /^\s*\{\s*"payload"\s*:/.exec(bodyText);
  const text = inside && bodyText.slice(inside[0].length, bodyText.lastIndexOf('}'));
  if (text && isJson(text)) return text.trim();
  // The name is escaped, or stands there twice, or not at all.
  const { payload } = (bodyText === '' ? {} : parseExactJson(bodyText)) as { payload?: unknown };
  return JSON.stringify(payload ?? null);
};

const slug = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/);

/** The caller as the function sees it. */
const functionCaller = ({ key, caller }: Pick<DataCall, 'key' | 'caller'>): FunctionCaller => {
  const claims = JSON.parse(caller.claims) as Record<string, unknown>;
  const isUser = typeof claims['sub'] === 'string';
  return { kind: isUser ? 'user' : (key?.kind ?? 'user'), key_id: key?.id ?? null, user: isUser ? claims : null };
};

/** The public call of a function, by API key or by the token of one of the project's own users. */
const publicInvoke = (path: string, params: z.ZodType<{ slug: string }>): Endpoint =>
  jobEndpoint({
    method: 'post',
    path,
    area,
    summary: 'Run a function by key or user token: the body (JSON or text) is the payload, the answer the result',
    access: { ...withKey('secret', 'publishable', 'user'), evenInactive: true },
    params,
    bodyLimit: 'function',
    textBody: true,
    body: z.unknown(),
    response: z.unknown(),
    request: ({ params, bodyText }, { deps, project, key, caller, requestId, setHeader }) =>
      invocation(deps.functionVersions, project, {
        by: { slug: params.slug },
        payload: bodyText || 'null',
        trigger: 'api',
        requestId,
        caps: monthlyCaps(deps.config),
        caller: functionCaller({ key, caller }),
        onVersion: (version) => setHeader('X-Function-Version', String(version)),
      }),
    accepted: async ({ jobId, replayed }, { deps, setHeader }) => {
      setHeader('X-Invocation-Id', jobId);
      const version = replayed ? await versionOfRun(deps.db, jobId) : undefined;
      if (version !== undefined) setHeader('X-Function-Version', String(version));
    },
    answer: (done, { caller }) => {
      const answer = runAnswer(done);
      const code = done.outcome.error?.code ?? '';
      if (done.outcome.status === 'succeeded') return Promise.resolve(new RawReply(bareResult(answer)));
      if (!isFault(code)) throw new ServiceError('internal', 'The function could not be run.');
      const { error } = JSON.parse(answer) as { error?: unknown };
      throw new ServiceError(publicErrors[code], `The function failed (${code}).`, {
        ...(caller.role === 'service' && error !== undefined && { details: error }),
      });
    },
  });

/** Runs of functions on request (interface, "Functions"). */
export const invokeEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{function_id}/invoke',
    area,
    summary: 'Run a function and wait for its result; 200 whatever the handler did',
    access: { ...inProject('developer'), checkedByInsert: true },
    params: z.object({ project_id: id, function_id: id }),
    rate: 'none',
    bodyLimit: 'function',
    body: z.strictObject({ payload: z.unknown() }),
    response: functionInvoke.result,
    request: async ({ params, bodyText }, { deps, project, member, requestId }) => {
      const [payload, caps] = [payloadText(bodyText), monthlyCaps(deps.config)];
      const order = { by: { id: params.function_id }, payload, trigger: 'dashboard', requestId, caps, member } as const;
      return invocation(deps.functionVersions, project, order);
    },
    answer: (done) => Promise.resolve(new RawReply(runAnswer(done))),
  }),
  publicInvoke('/api/functions/{slug}', z.object({ slug })),
  publicInvoke('/p/{ref}/functions/v1/{slug}', z.object({ ref: z.string(), slug })),
];
