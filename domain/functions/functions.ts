/*
 * Functions. This file has what members and callers do with them: deploy, change, invoke, run again. store.ts has the
 * rows of functions and their versions; files.ts checks several files; compiler.ts compiles JavaScript in processes of
 * its own by compile.ts and bundle.ts (places.ts keeps its lines), and python.ts checks Python; handler-names.ts refuses
 * code without its handler. runnables.ts reads versions for workers; run-report.ts makes a run's answer and record; invocations.ts reads these records; stored.ts
 * measures what a project stores. env-vars.ts has the variables of a function, project-env.ts those that all functions of
 * a project share.
 */
import { LRUCache } from 'lru-cache';
import type { AssumedMember } from '#domain/accounts/callers.ts';
import type { JobRequest } from '#domain/jobs/accept.ts';
import { forgetStarts } from '#domain/jobs/flow.ts';
import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, isDependencyFailure, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import {
  type FunctionCaller,
  type FunctionRequest,
  type SandboxFacts,
  type SandboxLevel,
  functionInvoke,
  sandboxLevels,
} from '#queues/function-invoke.ts';
import { type FlowControl, isControlled } from '#queues/flow-control.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import type { Gate } from '#queues/gate/types.ts';
import { mergeEnvVars } from './env-vars.ts';
import { givenTo } from './invocations.ts';
import {
  type FunctionAccess,
  type FunctionRow,
  type FunctionVersion,
  type Language,
  type CodeTexts,
  countForNew,
  deleteFunction,
  findFunction,
  insertFunction,
  isKept,
  lockFunction,
  presentVersion,
  renameFunction,
  replaceCode,
  setAccess,
  setFailureHandler,
  setFlowControl,
  setRetry,
} from './store.ts';

/** How many runs of functions a project may have in a calendar month (contract, section 4). */
export const monthlyCaps = (
  config: Pick<Config, 'PLINTH_MONTHLY_CAP_FREE' | 'PLINTH_MONTHLY_CAP_PRO'>,
): MonthlyCaps => ({
  free: config.PLINTH_MONTHLY_CAP_FREE,
  pro: config.PLINTH_MONTHLY_CAP_PRO,
  enterprise: null,
});

interface FunctionInput extends FlowControl {
  readonly name: string;
  readonly language: Language;
  readonly entry_point: string;
  readonly texts: CodeTexts;
  readonly timeout_ms: number;
  readonly memory_mb: number;
  readonly access: FunctionAccess;
  readonly retry: RetryPolicy | null;
  readonly on_failure_function_id: string | null;
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

interface Author {
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

/** @throws {ServiceError} `validation_failed` when it is no function of the project */
const requireHandler = async (
  db: Queryable,
  projectId: string,
  handlerId: string | null | undefined,
): Promise<void> => {
  if (handlerId === null || handlerId === undefined) return;
  if ((await presentVersion(db, projectId, { id: handlerId })) !== undefined) return;
  const details = [{ path: 'on_failure_function_id', message: 'is no function of the project' }];
  throw new ServiceError('validation_failed', 'The body is not valid.', { details });
};

/** @throws {ServiceError} `slug_taken` by its unique index, `validation_failed`, `plan_limit_exceeded` */
export const createFunction = async (
  db: Queryable,
  projectId: string,
  input: FunctionInput,
  { sealer, userId, maxFunctions }: Author,
): Promise<FunctionRow> => {
  if (maxFunctions !== null && (await countForNew(db, projectId)) >= maxFunctions) throw tooMany(maxFunctions);
  const { env_vars, texts, ...fields } = input;
  const id = newId();
  const [row] = await insertFunction(db, {
    ...fields,
    ...texts,
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

/** Finds functions by what callers name them, without a statement for each call. */
export interface FunctionVersions {
  /** As it is in the database now. */
  readonly read: (db: Queryable, projectId: string, by: InvokeOrder['by']) => Promise<FunctionVersion>;
  /** As it was within the last seconds: the statement that inserts the job checks that it still is. */
  readonly recall: (projectId: string, by: InvokeOrder['by']) => Promise<FunctionVersion>;
  /** As it is in the database now, outside of a transaction. */
  readonly renew: (projectId: string, by: InvokeOrder['by']) => Promise<FunctionVersion>;
}

const maxRecalled = 20_000;
/** The statement that inserts a job checks that the version still is the present one. */
const rememberedMs = 5000;

/** Every method throws {ServiceError} `not_found`. */
export const createFunctionVersions = (db: Queryable): FunctionVersions => {
  const known = new LRUCache<string, FunctionVersion>({ max: maxRecalled, ttl: rememberedMs });
  const read: FunctionVersions['read'] = async (queryable, projectId, by) => {
    const name = 'id' in by ? `${projectId} ${by.id}` : `${projectId}/${by.slug}`;
    known.delete(name);
    const found = await getFunctionVersion(queryable, projectId, by);
    known.set(name, found);
    return found;
  };
  return {
    read,
    renew: (projectId, by) => read(db, projectId, by),
    recall: async (projectId, by) =>
      known.get('id' in by ? `${projectId} ${by.id}` : `${projectId}/${by.slug}`) ?? read(db, projectId, by),
  };
};

export type FunctionChange = {
  readonly [Field in keyof Omit<FunctionInput, 'language'>]?: FunctionInput[Field] | undefined;
};

const changesCode = (change: FunctionChange): boolean =>
  (['texts', 'entry_point', 'timeout_ms', 'memory_mb', 'env_vars'] as const).some(
    (field) => change[field] !== undefined,
  );

const changeFlow = async (db: Queryable, id: string, change: FunctionChange): Promise<void> => {
  const { rate, debounce_ms, batch } = change;
  if (rate === undefined && debounce_ms === undefined && batch === undefined) return;
  await setFlowControl(db, id, { rate, debounce_ms, batch });
  if (rate !== undefined) await forgetStarts(db, id);
};

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
  if (change.access !== undefined) await setAccess(db, id, change.access);
  if (change.retry !== undefined) await setRetry(db, id, change.retry);
  await changeFlow(db, id, change);
  const { on_failure_function_id: handlerId } = change;
  await requireHandler(db, projectId, handlerId);
  if (handlerId !== undefined) await setFailureHandler(db, id, handlerId);
  if (changesCode(change)) {
    const next = {
      entry_point: change.entry_point ?? row.entry_point,
      texts: change.texts ?? null,
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

/** A caller from memory, whom the statement that inserts the job checks. */
export interface RecalledMember {
  readonly assumed: AssumedMember;
  /**
   * Reads the caller from the database.
   * @throws {ServiceError} `unauthenticated`, `not_found`, `forbidden`
   */
  readonly renew: (db: Queryable) => Promise<{ readonly project: Project; readonly member: RecalledMember }>;
}

interface InvokeOrder {
  readonly by: { readonly id: string } | { readonly slug: string };
  /** JSON text. */
  readonly payload: string;
  readonly trigger: 'api' | 'dashboard';
  readonly requestId: string;
  /** Left out: not at its public address. */
  readonly caller?: FunctionCaller;
  readonly request?: FunctionRequest | undefined;
  /** The caller takes an answer that is sent while the run goes on. */
  readonly streams?: boolean;
  /** How many runs each plan has a month. */
  readonly caps: MonthlyCaps;
  /** A member who was recalled. Left out: the caller is known for sure. */
  readonly member?: RecalledMember | undefined;
  /** Told the version that is to run, and another one when the function is deployed meanwhile. */
  readonly onVersion?: (version: number) => void;
}

/** @throws {ServiceError} `project_not_ready` */
export const requireActive = ({ status }: Pick<Project, 'status'>): void => {
  if (status === 'active') return;
  throw new ServiceError('project_not_ready', `The project is ${status}; functions run when it is active.`);
};

/** Whether a function with that access takes the caller. */
const takes = (access: FunctionAccess, { kind }: FunctionCaller): boolean => {
  if (access === 'public') return true;
  if (access === 'key') return kind !== 'public';
  return kind === access;
};

const refusalOf = (access: FunctionAccess, { kind }: FunctionCaller): ServiceError => {
  if (access === 'secret') return new ServiceError('forbidden', 'This function takes secret keys only.');
  if (access === 'user' && kind !== 'public')
    return new ServiceError('forbidden', 'This function takes the access tokens of signed-in users only.');
  return new ServiceError('unauthenticated', 'This function needs the access token of a signed-in user, or a key.');
};

/** @throws {ServiceError} `unauthenticated` or `forbidden` when a function with that access does not take the caller */
export const requireTaken = (access: FunctionAccess, caller: FunctionCaller): void => {
  if (!takes(access, caller)) throw refusalOf(access, caller);
};

/** The job that runs that version of that function. */
export const requestFor = (
  { id: projectId, plan }: Pick<Project, 'id' | 'plan'>,
  order: Omit<InvokeOrder, 'by' | 'onVersion' | 'member'> & {
    readonly functionId: string;
    readonly version: number;
    /** Left out: it runs whatever the function says of its jobs. */
    readonly flow?: FlowControl;
  },
): JobRequest => {
  const { functionId, version, trigger, payload, requestId, caps, caller, request, streams, flow } = order;
  const by = {
    ...(request && { request }),
    ...(streams && { streams: true as const }),
    ...(caller && { caller }),
  };
  const data = { function_id: functionId, version, trigger, payload, ...by };
  const controlled = flow !== undefined && isControlled(flow) ? { flow: { functionId, ...flow } } : {};
  return { job: functionInvoke, projectId, requestId, data, monthlyLimit: caps[plan], ...controlled };
};

/** Another service's credentials are for a function that takes everybody, and for no other. */
const requestFitting = (access: FunctionAccess, request: FunctionRequest | undefined): FunctionRequest | undefined => {
  if (request === undefined || access === 'public') return request;
  const { authorization: _foreign, ...headers } = request.headers;
  return { ...request, headers };
};

/** The job that runs the version that was found, and how to make it anew when that or the caller has changed. */
const requestOf = (
  versions: FunctionVersions,
  project: Project,
  order: InvokeOrder,
  { id: functionId, version, access, rate, debounce_ms, batch }: FunctionVersion,
): JobRequest => {
  const { by, member, caller, onVersion } = order;
  requireActive(project);
  if (caller !== undefined) requireTaken(access, caller);
  onVersion?.(version);
  const renew = async (db: Queryable): Promise<JobRequest> => {
    const caller = await member?.renew(db);
    const present = await versions.read(db, project.id, by);
    return requestOf(versions, caller?.project ?? project, { ...order, member: caller?.member }, present);
  };
  return {
    ...requestFor(project, {
      ...order,
      request: requestFitting(access, order.request),
      functionId,
      version,
      flow: { rate, debounce_ms, batch },
    }),
    assumes: {
      functionId,
      version,
      slug: 'slug' in by ? by.slug : null,
      access: caller === undefined ? null : access,
      member: member?.assumed,
      renew,
    },
  };
};

/**
 * The function as it is known, or as it is in the database when what is known would refuse the caller: its access may
 * have been changed a moment ago.
 */
const knownFor = async (
  versions: FunctionVersions,
  { projectId, by, caller }: Pick<InvokeOrder, 'by' | 'caller'> & { readonly projectId: string },
): Promise<FunctionVersion> => {
  const known = await versions.recall(projectId, by);
  return caller === undefined || takes(known.access, caller) ? known : versions.renew(projectId, by);
};

/**
 * The job that runs a function's present version: the one that is deployed when the job is inserted.
 * @throws {ServiceError} `not_found`, `project_not_ready`; `unauthenticated` or `forbidden` when the function does not
 * take the caller
 */
export const invocation = async (
  versions: FunctionVersions,
  project: Project,
  order: InvokeOrder,
): Promise<JobRequest> =>
  requestOf(versions, project, order, await knownFor(versions, { ...order, projectId: project.id }));

const everybody: FunctionCaller = { kind: 'public', key_id: null, user: null };

/** Whether a function of that slug can be called without any credentials of ours. */
export const isPublic = async (versions: FunctionVersions, projectId: string, slug: string): Promise<boolean> => {
  const call = { projectId, by: { slug }, caller: everybody };
  const found = await knownFor(versions, call).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === 'not_found') return undefined;
    throw error;
  });
  return found?.access === 'public';
};

const requireKept = async (db: Queryable, functionId: string, version: number): Promise<number> => {
  if (await isKept(db, functionId, version)) return version;
  throw new ServiceError('conflict', `Version ${version} of the function is not kept any more.`, {
    hint: 'Run it on the present version: version=current.',
  });
};

/**
 * The job that runs a function once more with what an earlier run was given, exactly.
 * @throws {ServiceError} `not_found`, `project_not_ready`; `conflict` when the original version is gone
 */
export const rerunOf = async (
  db: Queryable,
  project: Project,
  earlier: { readonly functionId: string; readonly id: string },
  how: { readonly version: 'current' | 'original'; readonly requestId: string; readonly caps: MonthlyCaps },
): Promise<JobRequest> => {
  const { functionId } = earlier;
  const present = await getFunctionVersion(db, project.id, { id: functionId });
  const given = await givenTo(db, functionId, earlier.id);
  if (given === undefined) throw notFound('invocation');
  requireActive(project);
  const version = how.version === 'current' ? present.version : await requireKept(db, functionId, given.version);
  const { requestId, caps } = how;
  const { payload, request } = given;
  const again = { payload, ...(request && { request }), trigger: 'dashboard' } as const;
  return requestFor(project, { functionId, version, ...again, requestId, caps });
};

const weaker = (a: SandboxLevel, b: SandboxLevel): SandboxLevel =>
  sandboxLevels.indexOf(a) < sandboxLevels.indexOf(b) ? a : b;

/**
 * The languages that live workers run functions in, each with the weakest of their sandboxes. Null while that is not
 * known: no such worker is alive, or Redis does not answer.
 */
export async function sandboxFacts(gate: Pick<Gate, 'stats'>): Promise<SandboxFacts | null> {
  try {
    const { workers } = await gate.stats(functionInvoke.type);
    const facts = new Map<string, SandboxLevel>();
    for (const [language, level] of workers.flatMap(({ sandbox = {} }) => Object.entries(sandbox))) {
      facts.set(language, weaker(level, facts.get(language) ?? level));
    }
    return facts.size === 0 ? null : Object.fromEntries(facts);
  } catch (error) {
    if (isDependencyFailure(error)) return null;
    throw error;
  }
}

/** Whether a function in this language can run here; while it is not known which ones can, it is taken to be so. */
export async function isLanguageServed(gate: Pick<Gate, 'stats'>, language: Language): Promise<boolean> {
  const facts = await sandboxFacts(gate);
  return facts === null || Object.hasOwn(facts, language);
}
