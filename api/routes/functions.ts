import { z } from 'zod';
import {
  type FunctionChange,
  createFunction,
  getFunction,
  isLanguageServed,
  removeFunction,
  updateFunction,
} from '#domain/functions/functions.ts';
import { type FunctionRow, type Language, functionAccess, listFunctions } from '#domain/functions/store.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import { ServiceError } from '#lib/errors.ts';
import { retryPolicy } from '#queues/retry-policy.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, name, page, text } from '../fields.ts';
import { detailedFunction, functionPath, listedFunction, shownFunction } from '#api/shapes/functions.ts';

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

const projectPath = z.object({ project_id: id });
const authorOf = ({ deps, project, user }: Call<InProject>) => ({
  sealer: deps.projects.sealer(project),
  userId: user.id,
  maxFunctions: quotasFrom(deps.config)[project.plan].functions,
});

/** @throws {ServiceError} `feature_unavailable` when no live worker runs functions in this language */
const requireServed = async (language: Language, { deps }: Call<InProject>): Promise<void> => {
  if (await isLanguageServed(deps.gate, language)) return;
  throw new ServiceError('feature_unavailable', `Functions in ${language} are not available on this installation.`);
};

const pythonName = /^[A-Za-z_]\w*$/;

const requireEntryPoint = (language: Language, entryPoint: string | undefined): void => {
  if (language === 'javascript' || entryPoint === undefined || pythonName.test(entryPoint)) return;
  const details = [{ path: 'entry_point', message: 'must be the name of a Python function' }];
  throw new ServiceError('validation_failed', 'The body is not valid.', { details });
};

/** In bytes; the field's own limit counts characters. */
const requireCodeSize = (code: string, max: number): void => {
  if (Buffer.byteLength(code) <= max) return;
  const details = [{ path: 'code', message: `is longer than ${max} bytes` }];
  throw new ServiceError('validation_failed', `The function's code is longer than ${max} bytes.`, { details });
};

type Source = Pick<FunctionRow, 'language' | 'code' | 'entry_point'>;

/** The code that runs: JavaScript is compiled to one text, Python runs as it is written. */
const compiled = async (source: Source, { deps, project }: Call<InProject>): Promise<string> => {
  const { language, code, entry_point: entryPoint } = source;
  requireCodeSize(code, deps.config.PLINTH_CODE_BYTES);
  if (language === 'javascript') return deps.compiler.compile(code, project.id, entryPoint);
  await deps.python.check(code, project.id, entryPoint);
  return code;
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
      access: z.enum(functionAccess).default('key').describe('Which callers it takes at its public address.'),
      retry: retryPolicy.nullable().default(null),
      env_vars: envVars.default({}),
    }),
    bodyLimit: 'function',
    status: 201,
    response: detailedFunction,
    prepare: async ({ body }, call) => {
      requireEntryPoint(body.language, body.entry_point);
      await requireServed(body.language, call);
      return compiled(body, call);
    },
    handle: async ({ body, prepared }, call) =>
      shownFunction(
        await createFunction(call.db, call.project.id, { ...body, compiled: prepared }, authorOf(call)),
        call,
      ),
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
      access: z.enum(functionAccess).optional(),
      retry: retryPolicy.nullable().optional(),
      env_vars: envVars.optional().describe('Merged; null deletes a variable, a masked value keeps it.'),
    }),
    bodyLimit: 'function',
    response: detailedFunction,
    prepare: async ({ params, body: { code, entry_point: entryPoint } }, call) => {
      if (code === undefined && entryPoint === undefined) return undefined;
      const present = await getFunction(call.db, call.project.id, params.id);
      requireEntryPoint(present.language, entryPoint);
      if (code === undefined && entryPoint === present.entry_point) return undefined;
      const next = { ...present, code: code ?? present.code, entry_point: entryPoint ?? present.entry_point };
      const ready = await compiled(next, call);
      return code === undefined ? undefined : ready;
    },
    handle: async ({ params, body, prepared }, call) => {
      const change: FunctionChange = { ...body, compiled: prepared };
      const of = { projectId: call.project.id, id: params.id };
      return shownFunction(await updateFunction(call.db, of, change, authorOf(call)), call);
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
    response: z.object({ functions: z.array(listedFunction), total: z.int() }),
    handle: async ({ query }, call) => {
      const { functions, total } = await listFunctions(call.db, call.project.id, query);
      return { functions: functions.map((row) => shownFunction(row, call)), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'A function with its code',
    access: inProject('viewer'),
    params: functionPath,
    response: detailedFunction,
    handle: async ({ params }, call) => shownFunction(await getFunction(call.db, call.project.id, params.id), call),
  }),
];

/** Functions (interface, "Functions"; contract, section 4). */
export const functionEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints];
