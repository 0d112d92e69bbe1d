import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { FlowControl } from '#queues/flow-control.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { usesSteps } from './uses-steps.ts';

export type Language = 'javascript' | 'python';

/**
 * The callers that a function takes at its public address: holders of any key and signed-in users; signed-in users;
 * secret keys; everybody.
 */
export const functionAccess = ['key', 'user', 'secret', 'public'] as const;
export type FunctionAccess = (typeof functionAccess)[number];

/** The fields that a run depends on: a change of any of them is a new version. */
interface FunctionCode {
  readonly entry_point: string;
  /** Empty for a function of several files. */
  readonly code: string;
  /** JSON text, `{path: text}`; null: the function is one file, without a path. */
  readonly files: string | null;
  /** Path of the file with the handler. */
  readonly entrypoint: string | null;
  /** The code that runs: one CommonJS text, made on deploy; empty where the files themselves are what runs. */
  readonly compiled: string;
  readonly timeout_ms: number;
  readonly memory_mb: number;
  readonly env_sealed: Buffer | null;
}

/** Without the compiled text and the files, which can have megabytes. */
export interface FunctionRow extends Omit<FunctionCode, 'compiled' | 'files'>, FlowControl {
  readonly id: string;
  readonly project_id: string;
  readonly slug: string;
  readonly name: string;
  readonly language: Language;
  readonly access: FunctionAccess;
  /** For its jobs that bring none of their own. */
  readonly retry: RetryPolicy | null;
  /** Runs when a job of the function has failed for good. */
  readonly on_failure_function_id: string | null;
  readonly version: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

const codeColumns = 'entry_point, code, files, entrypoint, compiled, timeout_ms, memory_mb, env_sealed';
const listedColumns = `id, project_id, slug, name, language, access, retry, rate, debounce_ms, batch, on_failure_function_id,
  entry_point, entrypoint, timeout_ms, memory_mb, env_sealed, version, created_at, updated_at`;
const columns = `${listedColumns}, code`;

/** A function without its texts, which can be a megabyte each. */
export type ListedFunction = Omit<FunctionRow, 'code'>;

interface NewFunction extends FunctionCode, FlowControl {
  readonly id: string;
  readonly project_id: string;
  readonly slug: string;
  readonly name: string;
  readonly language: Language;
  readonly access: FunctionAccess;
  readonly retry: RetryPolicy | null;
  readonly on_failure_function_id: string | null;
  readonly created_by: string;
}

/** From now on a run of the function whose worker dies before its first step is continued, too. */
const markStepped = async (db: Queryable, functionId: string): Promise<void> => {
  await db.query('insert into stepped_functions (function_id) values ($1) on conflict do nothing', [functionId]);
};

/** Fails on `functions_project_slug_key` when the slug is taken. */
export const insertFunction = async (db: Queryable, fn: NewFunction): Promise<FunctionRow[]> => {
  const rows = await db.query<FunctionRow>(
    `insert into functions (id, project_id, slug, name, language, access, ${codeColumns}, version, created_by, retry,
       on_failure_function_id, rate, debounce_ms, batch)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 1, $15, $16, $17, $18, $19, $20)
     returning ${columns}`,
    [
      fn.id,
      fn.project_id,
      fn.slug,
      fn.name,
      fn.language,
      fn.access,
      fn.entry_point,
      fn.code,
      fn.files,
      fn.entrypoint,
      fn.compiled,
      fn.timeout_ms,
      fn.memory_mb,
      fn.env_sealed,
      fn.created_by,
      fn.retry,
      fn.on_failure_function_id,
      fn.rate,
      fn.debounce_ms,
      fn.batch,
    ],
  );
  if (usesSteps(fn.language, fn)) await markStepped(db, fn.id);
  return rows;
};

/** Holds back other new functions of the project until this transaction ends. */
export const countForNew = async (db: Queryable, projectId: string): Promise<number> => {
  await db.query(`select pg_advisory_xact_lock(hashtextextended('functions ' || $1, 0))`, [projectId]);
  return countFunctions(db, projectId);
};

export const countFunctions = async (db: Queryable, projectId: string): Promise<number> => {
  const [row] = await db.query<{ n: number }>('select count(*)::int as n from functions where project_id = $1', [
    projectId,
  ]);
  return row?.n ?? 0;
};

export const findFunction = (db: Queryable, projectId: string, id: string): Promise<FunctionRow | undefined> =>
  maybeOne(
    db.query<FunctionRow>(`select ${columns} from functions where project_id = $1 and id = $2`, [projectId, id]),
  );

/** Holds back other changes of the function until this transaction ends. */
export const lockFunction = (db: Queryable, projectId: string, id: string): Promise<ListedFunction | undefined> =>
  maybeOne(
    db.query<ListedFunction>(`select ${listedColumns} from functions where project_id = $1 and id = $2 for update`, [
      projectId,
      id,
    ]),
  );

export interface FunctionVersion extends FlowControl {
  readonly id: string;
  readonly version: number;
  readonly language: Language;
  readonly access: FunctionAccess;
  readonly retry: RetryPolicy | null;
}

const presentColumns = 'id, version, language, access, retry, rate, debounce_ms, batch';

/** Which version an invocation of that function runs; `by` is its id or, for public calls, its slug. */
export const presentVersion = (
  db: Queryable,
  projectId: string,
  by: { readonly id: string } | { readonly slug: string },
): Promise<FunctionVersion | undefined> =>
  'id' in by
    ? maybeOne(
        db.query<FunctionVersion>(
          `select ${presentColumns} from functions where project_id = $1 and id = $2`,
          [projectId, by.id],
          'fn-id',
        ),
      )
    : maybeOne(
        db.query<FunctionVersion>(
          `select ${presentColumns} from functions where project_id = $1 and slug = $2`,
          [projectId, by.slug],
          'fn-slug',
        ),
      );

/** Whether that version can still be run. */
export const isKept = async (db: Queryable, functionId: string, version: number): Promise<boolean> => {
  const rows = await db.query(
    `select 1 from functions where id = $1 and version = $2
     union all select 1 from function_versions where function_id = $1 and version = $2`,
    [functionId, version],
  );
  return rows.length > 0;
};

export const listFunctions = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ functions: ListedFunction[]; total: number }> => {
  const functions = await db.query<ListedFunction>(
    `select ${listedColumns} from functions where project_id = $1 order by created_at, id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const [count] = await db.query<{ total: number }>('select count(*) as total from functions where project_id = $1', [
    projectId,
  ]);
  return { functions, total: count?.total ?? 0 };
};

/** The bound of one function; older versions are deleted when newer ones come. */
export const maxVersions = 100;

/** Keeps the present version before it is replaced. */
const snapshot = async (db: Queryable, functionId: string): Promise<void> => {
  await db.query(
    `delete from function_versions v using functions f
     where f.id = $1 and v.function_id = f.id and v.version <= f.version - $2`,
    [functionId, maxVersions],
  );
  await db.query(
    `insert into function_versions (function_id, project_id, version, ${codeColumns}, created_by, created_at)
     select id, project_id, version, ${codeColumns}, created_by, deployed_at from functions where id = $1`,
    [functionId],
  );
};

/** The texts of a version, which belong together. */
export type CodeTexts = Pick<FunctionCode, 'code' | 'files' | 'entrypoint' | 'compiled'>;

/** Texts that are null stay as they are: they need not be read to be written again. */
interface NextCode extends Omit<FunctionCode, keyof CodeTexts> {
  readonly texts: CodeTexts | null;
}

/** Replaces the code; the version that it replaces is kept, the new one has the next number. */
export const replaceCode = async (db: Queryable, functionId: string, next: NextCode, by: string): Promise<void> => {
  await snapshot(db, functionId);
  const { texts, entry_point: entryPoint, timeout_ms: timeoutMs, memory_mb: memoryMb, env_sealed: env } = next;
  const given = texts === null ? [null, null, null, null] : [texts.code, texts.files, texts.entrypoint, texts.compiled];
  const [row] = await db.query<{ language: Language }>(
    `update functions set entry_point = $2, timeout_ms = $7, memory_mb = $8, env_sealed = $9, code = coalesce($3, code),
       files = case when $3::text is null then files else $4 end,
       entrypoint = case when $3::text is null then entrypoint else $5 end, compiled = coalesce($6, compiled),
       version = version + 1, created_by = $10, deployed_at = now(), updated_at = now()
     where id = $1 returning language`,
    [functionId, entryPoint, ...given, timeoutMs, memoryMb, env, by],
  );
  if (row && texts && usesSteps(row.language, texts)) await markStepped(db, functionId);
};

/** The files of the present version; null where it is one file without a path. */
export const findFiles = async (db: Queryable, functionId: string): Promise<string | null> => {
  const row = await maybeOne(
    db.query<{ files: string | null }>('select files from functions where id = $1', [functionId]),
  );
  return row?.files ?? null;
};

export const setAccess = async (db: Queryable, functionId: string, access: FunctionAccess): Promise<void> => {
  await db.query('update functions set access = $2, updated_at = now() where id = $1', [functionId, access]);
};

/** @param retry null: none */
export const setRetry = async (db: Queryable, functionId: string, retry: RetryPolicy | null): Promise<void> => {
  await db.query('update functions set retry = $2, updated_at = now() where id = $1', [functionId, retry]);
};

/** Fields that are left out stay as they are. */
export const setFlowControl = async (
  db: Queryable,
  functionId: string,
  change: { readonly [Field in keyof FlowControl]?: FlowControl[Field] | undefined },
): Promise<void> => {
  const { rate, debounce_ms: debounceMs, batch } = change;
  await db.query(
    `update functions set rate = case when $2 then $3 else rate end,
       debounce_ms = case when $4 then $5 else debounce_ms end, batch = case when $6 then $7 else batch end,
       updated_at = now() where id = $1`,
    [
      functionId,
      rate !== undefined,
      rate ?? null,
      debounceMs !== undefined,
      debounceMs ?? null,
      batch !== undefined,
      batch ?? null,
    ],
  );
};

/** @param handlerId null: none */
export const setFailureHandler = async (db: Queryable, functionId: string, handlerId: string | null): Promise<void> => {
  await db.query('update functions set on_failure_function_id = $2, updated_at = now() where id = $1', [
    functionId,
    handlerId,
  ]);
};

export const renameFunction = async (db: Queryable, functionId: string, name: string): Promise<void> => {
  await db.query('update functions set name = $2, updated_at = now() where id = $1', [functionId, name]);
};

export const deleteFunction = async (db: Queryable, projectId: string, id: string): Promise<boolean> =>
  (await db.query('delete from functions where project_id = $1 and id = $2 returning id', [projectId, id])).length > 0;

export interface RunnableRow extends Pick<
  FunctionCode,
  'entry_point' | 'entrypoint' | 'compiled' | 'timeout_ms' | 'memory_mb' | 'env_sealed'
> {
  readonly project_id: string;
  readonly language: Language;
  readonly data_key: Buffer;
  /** The variables of the project, and which state of them it is; 0: there were never any. */
  readonly shared_sealed: Buffer | null;
  readonly env_version: number;
  /** A run of it that breaks off before its first step is continued, too. */
  readonly has_steps: boolean;
}

/** One version as a worker runs it, present, replaced or a draft; undefined when the function was deleted. */
export const findRunnable = (db: Queryable, functionId: string, version: number): Promise<RunnableRow | undefined> =>
  maybeOne(
    db.query<RunnableRow>(
      `select f.project_id, f.language, p.data_key, v.entry_point, v.entrypoint,
         case when v.compiled = '' then coalesce(v.files, '') else v.compiled end as compiled,
         v.timeout_ms, v.memory_mb, v.env_sealed, e.vars_sealed as shared_sealed, coalesce(e.version, 0) as env_version,
         exists (select from stepped_functions s where s.function_id = f.id) as has_steps
       from functions f join projects p on p.id = f.project_id left join project_env e on e.project_id = f.project_id,
         lateral (
           select f.entry_point, f.entrypoint, f.compiled, f.files, f.timeout_ms, f.memory_mb, f.env_sealed
           where f.version = $2
           union all
           select h.entry_point, h.entrypoint, h.compiled, h.files, h.timeout_ms, h.memory_mb, h.env_sealed
           from function_versions h where h.function_id = f.id and h.version = $2
           union all
           select d.entry_point, d.entrypoint, d.compiled, d.files, f.timeout_ms, f.memory_mb, f.env_sealed
           from function_drafts d where d.function_id = f.id and d.version = $2
         ) v
       where f.id = $1 limit 1`,
      [functionId, version],
      'find-runnable',
    ),
  );

/** The state of a function before a change. */
interface VersionRow {
  readonly version: number;
  readonly created_at: Date;
  readonly entry_point: string;
  /** Null where the codes of a page are longer than `maxListedCode` altogether. */
  readonly code: string | null;
  /** Null also where there are none. */
  readonly files: string | null;
  readonly entrypoint: string | null;
  /** The user who made it; null when that user is gone. */
  readonly created_by: string | null;
}

/** Bytes of code in one page of a list: two hundred whole versions would be 200 MB. */
export const maxListedCode = 16 * 1024 * 1024;

/** The replaced versions of a function, newest first. */
export const listVersions = async (
  db: Queryable,
  functionId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ versions: VersionRow[]; total: number }> => {
  const versions = await db.query<VersionRow>(
    `select version, created_at, entry_point, entrypoint, created_by,
       case when so_far <= $4 then code end as code, case when so_far <= $4 then files end as files
     from (
       select *, sum(octet_length(code) + coalesce(octet_length(files), 0)) over (order by version desc) as so_far
       from (select * from function_versions where function_id = $1 order by version desc limit $2 offset $3) as page
     ) as measured
     order by version desc`,
    [functionId, limit, offset, maxListedCode],
  );
  const [count] = await db.query<{ total: number }>(
    'select count(*) as total from function_versions where function_id = $1',
    [functionId],
  );
  return { versions, total: count?.total ?? 0 };
};

const findVersion = (db: Queryable, functionId: string, version: number): Promise<FunctionCode | undefined> =>
  maybeOne(
    db.query<FunctionCode>(
      `select ${codeColumns} from function_versions
       where function_id = $1 and version = $2`,
      [functionId, version],
    ),
  );

interface RolledBack {
  readonly row: FunctionRow;
  readonly rolled_back_to: number;
  /** The number under which the code that was replaced is kept. */
  readonly saved_as: number;
}

/**
 * Makes an earlier version's code, entry point, limits and variables the present ones, under a new number. What they
 * replace is kept, so that a rollback can be rolled back.
 * @throws {ServiceError} `not_found` for the function or the version; `conflict` for the present version
 */
export const rollBack = async (
  db: Queryable,
  { projectId, id }: { readonly projectId: string; readonly id: string },
  version: number,
  userId: string,
): Promise<RolledBack> => {
  const present = await lockFunction(db, projectId, id);
  if (present === undefined) throw notFound('function');
  if (present.version === version) {
    throw new ServiceError('conflict', `Version ${version} is the present one.`);
  }
  const earlier = await findVersion(db, id, version);
  if (earlier === undefined) throw notFound('version');
  await replaceCode(db, id, { ...earlier, texts: earlier }, userId);
  const row = await findFunction(db, projectId, id);
  if (row === undefined) throw notFound('function');
  return { row, rolled_back_to: version, saved_as: present.version };
};
