import { LRUCache } from 'lru-cache';
import type { JobRequest } from '#domain/jobs/accept.ts';
import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type FunctionCaller, functionInvoke } from '#queues/function-invoke.ts';
import { type EnvVars, mergeEnvVars, openEnvVars } from './env-vars.ts';
import {
  type FunctionRow,
  type FunctionVersion,
  type Language,
  countForNew,
  deleteFunction,
  findFunction,
  findRunnable,
  insertFunction,
  lockFunction,
  presentVersion,
  renameFunction,
  replaceCode,
} from './store.ts';

export interface FunctionInput {
  readonly name: string;
  readonly language: Language;
  readonly entry_point: string;
  readonly code: string;
  readonly compiled: string;
  readonly timeout_ms: number;
  readonly memory_mb: number;
  readonly env_vars: Readonly<Record<string, string | null>>;
}

/** Kebab-case of a name: `Send Invoice (v2)` → `send-invoice-v2`. Empty when no letter or digit is left. */
export const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/([a-z\d])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 63)
    .replace(/-$/, '');

const slugFor = (name: string): string => {
  const slug = slugOf(name);
  if (slug !== '') return slug;
  const message = 'needs a letter a-z or a digit, from which its address is made';
  throw new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path: 'name', message }] });
};

export interface Author {
  /** How many functions the project may have; null: any number. */
  readonly maxFunctions: number | null;
  readonly sealer: Sealer;
  readonly userId: string;
}

const tooMany = (max: number): ServiceError =>
  new ServiceError('plan_limit_exceeded', `The project may have ${max} functions on its plan.`, {
    details: { limit: 'functions', value: max },
    hint: 'Delete functions that are not used, or change the plan.',
  });

/** @throws {ServiceError} `slug_taken` by its unique index, `validation_failed`, `plan_limit_exceeded` */
export const createFunction = async (
  db: Queryable,
  projectId: string,
  input: FunctionInput,
  { sealer, userId, maxFunctions }: Author,
): Promise<FunctionRow> => {
  if (maxFunctions !== null && (await countForNew(db, projectId)) >= maxFunctions) throw tooMany(maxFunctions);
  const { env_vars, ...fields } = input;
  const id = newId();
  const [row] = await insertFunction(db, {
    ...fields,
    id,
    project_id: projectId,
    slug: slugFor(input.name),
    env_sealed: mergeEnvVars(sealer, id, null, env_vars),
    created_by: userId,
  });
  if (row === undefined) throw new Error('a new function was not answered');
  return row;
};

/** @throws {ServiceError} `not_found` */
export const getFunction = async (db: Queryable, projectId: string, id: string): Promise<FunctionRow> => {
  const row = await findFunction(db, projectId, id);
  if (row === undefined) throw notFound('function');
  return row;
};

/**
 * A function's id and present version, without its code.
 * @throws {ServiceError} `not_found`
 */
export const getFunctionVersion = async (
  db: Queryable,
  projectId: string,
  by: InvokeOrder['by'],
): Promise<FunctionVersion> => {
  const present = await presentVersion(db, projectId, by);
  if (present === undefined) throw notFound('function');
  return present;
};

export type FunctionChange = {
  readonly [Field in keyof Omit<FunctionInput, 'language'>]?: FunctionInput[Field] | undefined;
};

const changesCode = (change: FunctionChange): boolean =>
  (['code', 'entry_point', 'timeout_ms', 'memory_mb', 'env_vars'] as const).some(
    (field) => change[field] !== undefined,
  );

/**
 * Changes a function. Whatever a run depends on makes a new version; a new name keeps the slug, so that callers go on.
 * @throws {ServiceError} `not_found`, `validation_failed`
 */
export const updateFunction = async (
  db: Queryable,
  { projectId, id }: { readonly projectId: string; readonly id: string },
  change: FunctionChange,
  { sealer, userId }: Omit<Author, 'maxFunctions'>,
): Promise<FunctionRow> => {
  const row = await lockFunction(db, projectId, id);
  if (row === undefined) throw notFound('function');
  if (change.name !== undefined) await renameFunction(db, id, change.name);
  if (changesCode(change)) {
    const next = {
      entry_point: change.entry_point ?? row.entry_point,
      code: change.code ?? null,
      compiled: change.compiled ?? null,
      timeout_ms: change.timeout_ms ?? row.timeout_ms,
      memory_mb: change.memory_mb ?? row.memory_mb,
      env_sealed: change.env_vars ? mergeEnvVars(sealer, id, row.env_sealed, change.env_vars) : row.env_sealed,
    };
    await replaceCode(db, id, next, userId);
  }
  return getFunction(db, projectId, id);
};

/** @throws {ServiceError} `not_found` */
export const removeFunction = async (db: Queryable, projectId: string, id: string): Promise<void> => {
  if (!(await deleteFunction(db, projectId, id))) throw notFound('function');
};

export interface InvokeOrder {
  readonly by: { readonly id: string } | { readonly slug: string };
  /** JSON text. */
  readonly payload: string;
  readonly trigger: 'api' | 'dashboard';
  readonly requestId: string;
  /** Left out: not by key. */
  readonly caller?: FunctionCaller;
  /** How many runs each plan has a month. */
  readonly caps: MonthlyCaps;
}

export const requireActive = ({ status }: Pick<Project, 'status'>): void => {
  if (status === 'active') return;
  throw new ServiceError('project_not_ready', `The project is ${status}; functions run when it is active.`);
};

/** The job that runs that version of that function. */
export const requestFor = (
  { id: projectId, plan }: Pick<Project, 'id' | 'plan'>,
  order: Omit<InvokeOrder, 'by'> & { readonly functionId: string; readonly version: number },
): JobRequest => {
  const { functionId, version, trigger, payload, requestId, caps, caller } = order;
  const data = { function_id: functionId, version, trigger, payload, ...(caller && { caller }) };
  return { job: functionInvoke, projectId, requestId, data, monthlyLimit: caps[plan] };
};

/**
 * The job that runs a function's present version.
 * @throws {ServiceError} `not_found`, `project_not_ready`
 */
export const invocation = async (
  db: Queryable,
  project: Project,
  order: InvokeOrder,
): Promise<{ request: JobRequest; version: number }> => {
  const present = await getFunctionVersion(db, project.id, order.by);
  requireActive(project);
  const { id, version } = present;
  return { request: requestFor(project, { ...order, functionId: id, version }), version };
};

/** One version, ready to run. */
export interface Runnable {
  readonly language: Language;
  readonly compiled: string;
  readonly entryPoint: string;
  readonly timeoutMs: number;
  readonly memoryMib: number;
  readonly env: EnvVars;
}

export type LoadRunnable = (functionId: string, version: number) => Promise<Runnable | undefined>;

const cacheBytes = 64 * 1024 * 1024;
/** A version never changes, but its function is deleted. */
const rememberedMs = 5000;

/** In memory, roughly: two bytes a character, and what each text and the object cost. */
const sizeOf = ({ compiled, env }: Runnable): number =>
  Object.entries(env).reduce((sum, [name, value]) => sum + (name.length + value.length) * 2 + 64, 1024) +
  compiled.length * 2;

/**
 * Reads versions for a worker and remembers them for 5 s; one of a deleted function runs no longer than that.
 * @param clock milliseconds, for its age
 */
export const createRunnableLoader = (
  db: Queryable,
  sealerOf: (project: { readonly id: string; readonly data_key: Buffer }) => Sealer,
  clock: { readonly now: () => number } = performance,
): LoadRunnable => {
  const cache = new LRUCache<string, Runnable>({
    maxSize: cacheBytes,
    sizeCalculation: sizeOf,
    ttl: rememberedMs,
    ttlResolution: 0,
    perf: clock,
  });
  return async (functionId, version) => {
    const key = `${functionId}:${version}`;
    const present = cache.get(key);
    if (present) return present;
    const row = await findRunnable(db, functionId, version);
    if (row === undefined) return undefined;
    const runnable = {
      language: row.language,
      compiled: row.compiled,
      entryPoint: row.entry_point,
      timeoutMs: row.timeout_ms,
      memoryMib: row.memory_mb,
      env: openEnvVars(sealerOf({ id: row.project_id, data_key: row.data_key }), functionId, row.env_sealed),
    };
    cache.set(key, runnable);
    return runnable;
  };
};
