import { z } from 'zod';
import { bareResult } from '#domain/functions/answer.ts';
import { maskEnvVars, openEnvVars } from '#domain/functions/env-vars.ts';
import {
  type FunctionChange,
  createFunction,
  getFunction,
  invocation,
  removeFunction,
  updateFunction,
} from '#domain/functions/functions.ts';
import { type ListedFunction, listFunctions } from '#domain/functions/store.ts';
import { type ErrorCode, ServiceError, errorStatus } from '#lib/errors.ts';
import { parseExactJson } from '#lib/json.ts';
import { type RunStatus, functionInvoke } from '#queues/function-invoke.ts';
import { type InProject, inProject, withKey } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, type JobEnd, RawReply, endpoint, jobEndpoint } from '../endpoint.ts';
import { id, instant, name, page, text } from '../fields.ts';

const area = 'functions';

const envName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: 'must be a name of letters, digits and _' });
// A record would drop this name without a word.
const refuseProto = (value: unknown, context: z.core.$RefinementCtx): unknown => {
  if (typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__'))
    context.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not possible as a name' });
  return value;
};
const envVars = z.preprocess(refuseProto, z.record(envName, text(32_768).nullable()));

const codeFields = {
  entry_point: z.string().regex(/^[A-Za-z_$][\w$]{0,127}$/, { error: 'must be the name of an exported function' }),
  code: text(1024 * 1024, 1),
  timeout_ms: z.int().min(100).max(300_000),
  memory_mb: z.int().min(64).max(1024),
};

const listed = z.object({
  id,
  slug: z.string(),
  name: z.string(),
  language: z.enum(['javascript', 'python']),
  entry_point: z.string(),
  timeout_ms: z.int(),
  memory_mb: z.int(),
  env_vars: z.record(z.string(), z.string()).describe('Values are masked.'),
  version: z.int(),
  created_at: instant,
  updated_at: instant,
});
const detailed = listed.extend({ code: z.string() });

const projectPath = z.object({ project_id: id });
const functionPath = z.object({ project_id: id, id });

const shown = <Row extends ListedFunction>(
  row: Row,
  { deps, project }: Call<InProject>,
): Row & { env_vars: Record<string, string> } => ({
  ...row,
  env_vars: maskEnvVars(openEnvVars(deps.projects.sealer(project), row.id, row.env_sealed)),
});

const authorOf = ({ deps, project, user }: Call<InProject>) => ({
  sealer: deps.projects.sealer(project),
  userId: user.id,
});

const requireJavascript = (language: string): void => {
  if (language === 'javascript') return;
  throw new ServiceError('feature_unavailable', `Functions in ${language} are not available on this installation.`);
};

const changeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/functions',
    area,
    summary: 'Deploy a new function; its slug is the kebab-case of its name',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({
      name,
      language: z.enum(['javascript', 'python']),
      ...codeFields,
      entry_point: codeFields.entry_point.default('handler'),
      timeout_ms: codeFields.timeout_ms.default(10_000),
      memory_mb: codeFields.memory_mb.default(256),
      env_vars: envVars.default({}),
    }),
    bodyLimit: 'function',
    status: 201,
    response: detailed,
    prepare: ({ body }, { deps }) => {
      requireJavascript(body.language);
      return deps.compiler.compile(body.code);
    },
    handle: async ({ body, prepared }, call) =>
      shown(await createFunction(call.db, call.project.id, { ...body, compiled: prepared }, authorOf(call)), call),
  }),
  endpoint({
    method: 'patch',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'Change a function; what it was is kept as a version',
    access: inProject('developer'),
    params: functionPath,
    body: z.strictObject({
      name: name.optional(),
      ...z.object(codeFields).partial().shape,
      env_vars: envVars.optional().describe('Merged; null deletes a variable, a masked value keeps it.'),
    }),
    bodyLimit: 'function',
    response: detailed,
    prepare: ({ body }, { deps }) =>
      body.code === undefined ? Promise.resolve(undefined) : deps.compiler.compile(body.code),
    handle: async ({ params, body, prepared }, call) => {
      const change: FunctionChange = { ...body, compiled: prepared };
      const of = { projectId: call.project.id, id: params.id };
      return shown(await updateFunction(call.db, of, change, authorOf(call)), call);
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'Delete a function and its versions',
    access: inProject('developer'),
    params: functionPath,
    handle: ({ params }, { db, project }) => removeFunction(db, project.id, params.id),
  }),
];

const readEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions',
    area,
    summary: 'The project’s functions, without their code',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ functions: z.array(listed), total: z.int() }),
    handle: async ({ query }, call) => {
      const { functions, total } = await listFunctions(call.db, call.project.id, query);
      return { functions: functions.map((row) => shown(row, call)), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'A function with its code',
    access: inProject('viewer'),
    params: functionPath,
    response: detailed,
    handle: async ({ params }, call) => shown(await getFunction(call.db, call.project.id, params.id), call),
  }),
];

/** How a run that did not succeed is told to public callers. */
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

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorStatus, code);

/** Of a run that ended the answer itself; a job that never came to run has no answer. */
const runAnswer = ({ outcome: { result, error } }: JobEnd): string => {
  if (result !== null) return result;
  if (error !== null && isErrorCode(error.code)) throw new ServiceError(error.code, error.message);
  throw new ServiceError('internal', 'The function could not be run.');
};

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/**
 * The payload's own text out of a body that was found to be `{"payload": …}`: as it came, numbers that JavaScript cannot
 * hold included.
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

/** The public call of a function, by API key. */
const publicInvoke = (path: string, params: z.ZodType<{ slug: string }>): Endpoint =>
  jobEndpoint({
    method: 'post',
    path,
    area,
    summary: 'Run a function by API key: the body is the payload, the answer the bare result',
    access: withKey('secret', 'publishable'),
    params,
    bodyLimit: 'function',
    body: z.unknown(),
    response: z.unknown(),
    request: async ({ params, bodyText }, { db, project, requestId, setHeader }) => {
      const order = { by: { slug: params.slug }, payload: bodyText || 'null', trigger: 'api', requestId } as const;
      const { request, version } = await invocation(db, project, order);
      setHeader('X-Function-Version', String(version));
      return request;
    },
    answer: (done, { key, setHeader }) => {
      setHeader('X-Invocation-Id', done.jobId);
      const answer = runAnswer(done);
      const code = done.outcome.error?.code ?? '';
      if (done.outcome.status === 'succeeded') return Promise.resolve(new RawReply(bareResult(answer)));
      if (!isFault(code)) throw new ServiceError('internal', 'The function could not be run.');
      const { error } = JSON.parse(answer) as { error?: unknown };
      throw new ServiceError(publicErrors[code], `The function failed (${code}).`, {
        ...(key.kind === 'secret' && error !== undefined && { details: error }),
      });
    },
  });

const invokeEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{function_id}/invoke',
    area,
    summary: 'Run a function and wait for its result; 200 whatever the handler did',
    access: inProject('developer'),
    params: z.object({ project_id: id, function_id: id }),
    rate: 'none',
    bodyLimit: 'function',
    body: z.strictObject({ payload: z.unknown() }),
    response: functionInvoke.result,
    request: async ({ params, bodyText }, { db, project, requestId }) => {
      const payload = payloadText(bodyText);
      const order = { by: { id: params.function_id }, payload, trigger: 'dashboard', requestId } as const;
      return (await invocation(db, project, order)).request;
    },
    answer: (done) => Promise.resolve(new RawReply(runAnswer(done))),
  }),
  publicInvoke('/api/functions/{slug}', z.object({ slug })),
  publicInvoke('/p/{ref}/functions/v1/{slug}', z.object({ ref: z.string(), slug })),
];

/** Functions (interface, "Functions"; contract, section 4). */
export const functionEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints, ...invokeEndpoints];
