import { z } from 'zod';
import {
  type FunctionChange,
  createFunction,
  getFunction,
  isLanguageServed,
  removeFunction,
  updateFunction,
} from '#domain/functions/functions.ts';
import { maxVars } from '#domain/functions/env-vars.ts';
import { findWarmStart } from '#domain/functions/snapshots.ts';
import { type PackedFiles, entrypointOf } from '#domain/functions/files.ts';
import {
  type CodeTexts,
  type FunctionRow,
  type Language,
  findFiles,
  functionAccess,
  listFunctions,
} from '#domain/functions/store.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import { ServiceError } from '#lib/errors.ts';
import { batching, debounceMs, rateLimit } from '#queues/flow-control.ts';
import { retryPolicy } from '#queues/retry-policy.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, name, namedBody, page, text } from '../fields.ts';
import { reportWarmStart } from '#api/http/warm-start.ts';
import { deployBody, filesField } from '#api/shapes/function-files.ts';
import {
  detailedFunction,
  envVars,
  functionPath,
  functionWithFiles,
  listedFunction,
  shownFunction,
  shownInList,
  withFiles,
  withWarmStart,
} from '#api/shapes/functions.ts';

const area = 'functions';

/** The fields of a function's code and limits, as bodies have them. */
export const codeFields = {
  entry_point: z.string().regex(/^[A-Za-z_$][\w$]{0,127}$/, { error: 'must be the name of an exported function' }),
  code: text(1024 * 1024, 1),
  timeout_ms: z.int().min(100).max(300_000),
  memory_mb: z.int().min(64).max(1024),
};

const projectPath = z.object({ project_id: id });
export const authorOf = ({ deps, project, user }: Call<InProject>) => ({
  sealer: deps.projects.sealer(project),
  userId: user.id,
  maxFunctions: quotasFrom(deps.config)[project.plan].functions,
});

/** @throws {ServiceError} `feature_unavailable` when no live worker runs functions in this language */
export const requireServed = async (language: Language, { deps }: Call<InProject>): Promise<void> => {
  if (await isLanguageServed(deps.gate, language)) return;
  throw new ServiceError('feature_unavailable', `Functions in ${language} are not available on this installation.`);
};

const pythonName = /^[A-Za-z_]\w*$/;

/** @throws {ServiceError} `validation_failed` for a name that the language cannot have */
export const requireEntryPoint = (language: Language, entryPoint: string | undefined): void => {
  if (language === 'javascript' || entryPoint === undefined || pythonName.test(entryPoint)) return;
  const details = [{ path: 'entry_point', message: 'must be the name of a Python function' }];
  throw new ServiceError('validation_failed', 'The body is not valid.', { details });
};

const tooLong = (path: 'code' | 'files', max: number): ServiceError => {
  const [verb, what] = path === 'code' ? ['is', 'code'] : ['are', 'files'];
  const details = [{ path, message: `${verb} longer than ${max} bytes` }];
  return new ServiceError('validation_failed', `The function's ${what} ${verb} longer than ${max} bytes.`, { details });
};

type Source = Pick<FunctionRow, 'language' | 'entry_point'>;

/** The code that runs: JavaScript is compiled to one text, Python runs as it is written. */
export const textsOfCode = async (
  code: string,
  source: Source,
  { deps, project }: Call<InProject>,
): Promise<CodeTexts> => {
  const { language, entry_point: entryPoint } = source;
  const max = deps.config.PLINTH_CODE_BYTES;
  // The field's own limit counts characters.
  if (Buffer.byteLength(code) > max) throw tooLong('code', max);
  const texts = { code, files: null, entrypoint: null };
  if (language === 'javascript')
    return { ...texts, compiled: await deps.compiler.compile(code, project.id, entryPoint) };
  await deps.python.check(code, project.id, entryPoint);
  return { ...texts, compiled: code };
};

interface GivenFiles {
  readonly text: string;
  readonly entrypoint: string;
}

/** The same for several files. Of Python they are what runs. */
const textsOfFiles = async (
  { text: files, entrypoint }: GivenFiles,
  { language, entry_point: entryPoint }: Source,
  { deps, project }: Call<InProject>,
): Promise<CodeTexts> => {
  const set = { files, entrypoint, entryPoint };
  const texts = { code: '', files, entrypoint };
  if (language === 'javascript') {
    const compiled = await deps.compiler.bundle({ ...set, maxBytes: deps.config.PLINTH_CODE_BYTES }, project.id);
    return { ...texts, compiled };
  }
  await deps.python.checkFiles(set, project.id);
  return { ...texts, compiled: '' };
};

interface GivenCode {
  readonly code?: string | undefined;
  readonly files?: PackedFiles | undefined;
  readonly entrypoint?: string | undefined;
}

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path, message }] });

/**
 * Compiles or checks the code that was given, or its files.
 * @returns undefined when neither code nor files were given
 * @throws {ServiceError} `validation_failed` and the faults of the code
 */
export const textsOf = async (
  { code, files, entrypoint }: GivenCode,
  source: Source,
  call: Call<InProject>,
): Promise<CodeTexts | undefined> => {
  if (code !== undefined && files !== undefined) throw invalid('files', 'cannot stand beside code');
  if (files === undefined && entrypoint !== undefined) throw invalid('entrypoint', 'needs files beside it');
  if (code !== undefined) return textsOfCode(code, source, call);
  if (files === undefined) return undefined;
  const max = call.deps.config.PLINTH_FILES_BYTES;
  if (files.bytes > max) throw tooLong('files', max);
  const given = { text: files.text, entrypoint: entrypointOf(source.language, files.paths, entrypoint) };
  return textsOfFiles(given, source, call);
};

/** Another handler is looked for in the code that is there. */
const checkPresent = async (present: FunctionRow, entryPoint: string, call: Call<InProject>): Promise<void> => {
  const source = { language: present.language, entry_point: entryPoint };
  const files = present.entrypoint === null ? null : await findFiles(call.db, present.id);
  if (files === null || present.entrypoint === null) await textsOfCode(present.code, source, call);
  else await textsOfFiles({ text: files, entrypoint: present.entrypoint }, source, call);
};

export const sourceFields = {
  code: codeFields.code.optional().describe('The function as one file.'),
  files: filesField.optional(),
  entrypoint: z
    .string()
    .max(200)
    .optional()
    .describe('Path of the file with the handler. Left out: index.ts, index.js or index.mjs; main.py or index.py.'),
};

const newFunction = namedBody('NewFunction', {
  name,
  language: z.enum(['javascript', 'python']),
  ...codeFields,
  ...sourceFields,
  entry_point: codeFields.entry_point.default('handler'),
  timeout_ms: codeFields.timeout_ms.default(10_000),
  memory_mb: codeFields.memory_mb.default(256),
  access: z.enum(functionAccess).default('key').describe('Which callers it takes at its public address.'),
  retry: retryPolicy.nullable().default(null),
  rate: rateLimit.nullable().default(null),
  debounce_ms: debounceMs.nullable().default(null),
  batch: batching.nullable().default(null),
  on_failure_function_id: id.nullable().default(null),
  env_vars: envVars.default({}),
});

const changedFunction = namedBody('FunctionChange', {
  name: name.optional(),
  ...z.object(codeFields).partial().shape,
  ...sourceFields,
  access: z.enum(functionAccess).optional(),
  retry: retryPolicy.nullable().optional(),
  rate: rateLimit.nullable().optional(),
  debounce_ms: debounceMs.nullable().optional(),
  batch: batching.nullable().optional(),
  on_failure_function_id: id.nullable().optional(),
  env_vars: envVars
    .optional()
    .describe(`Merged; null deletes a variable, a masked value keeps it. At most ${maxVars} altogether.`),
});

const changeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/functions',
    area,
    summary: 'Deploy a new function; its slug is the kebab-case of its name',
    access: inProject('developer'),
    params: projectPath,
    body: newFunction,
    readBody: deployBody(newFunction),
    bodyLimit: 'deploy',
    status: 201,
    response: detailedFunction,
    prepare: async ({ body }, call) => {
      requireEntryPoint(body.language, body.entry_point);
      await requireServed(body.language, call);
      const texts = await textsOf(body, body, call);
      if (texts === undefined) throw invalid('code', 'is required, or files');
      return texts;
    },
    handle: async ({ body, prepared: texts }, call) => {
      const { code: _code, files: _files, entrypoint: _entrypoint, ...fields } = body;
      const row = await createFunction(call.db, call.project.id, { ...fields, texts }, authorOf(call));
      reportWarmStart(row, call);
      return shownFunction(row, call);
    },
  }),
  endpoint({
    method: 'patch',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'Change a function; what it was is kept as a version',
    access: inProject('developer'),
    params: functionPath,
    body: changedFunction,
    readBody: deployBody(changedFunction),
    bodyLimit: 'deploy',
    response: detailedFunction,
    prepare: async ({ params, body }, call) => {
      const { code, files, entrypoint, entry_point: entryPoint } = body;
      if ([code, files, entrypoint, entryPoint].every((field) => field === undefined)) return undefined;
      const present = await getFunction(call.db, call.project.id, params.id);
      requireEntryPoint(present.language, entryPoint);
      const source = { language: present.language, entry_point: entryPoint ?? present.entry_point };
      const texts = await textsOf(body, source, call);
      if (texts === undefined && source.entry_point !== present.entry_point)
        await checkPresent(present, source.entry_point, call);
      return texts;
    },
    handle: async ({ params, body, prepared: texts }, call) => {
      const { code: _code, files: _files, entrypoint: _entrypoint, ...fields } = body;
      const change: FunctionChange = { ...fields, texts };
      const of = { projectId: call.project.id, id: params.id };
      const row = await updateFunction(call.db, of, change, authorOf(call));
      reportWarmStart(row, call);
      return shownFunction(row, call);
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
      return { functions: functions.map((row) => shownInList(row, call)), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}',
    area,
    summary: 'A function with its code and its files',
    access: inProject('viewer'),
    params: functionPath,
    response: functionWithFiles,
    handle: async ({ params }, call) => {
      const row = await getFunction(call.db, call.project.id, params.id);
      const files = row.entrypoint === null ? null : await findFiles(call.db, row.id);
      const warm_start = await findWarmStart(call.db, { functionId: row.id, version: row.version });
      return new RawReply(withFiles(withWarmStart, { ...shownFunction(row, call), warm_start }, files));
    },
  }),
];

/** Functions (interface, "Functions"; contract, section 4). */
export const functionEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints];
