import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type FunctionCode, type FunctionRow, findFunction, lockFunction, replaceCode } from './store.ts';

/** The state of a function before a change. */
export interface VersionRow {
  readonly version: number;
  readonly created_at: Date;
  readonly entry_point: string;
  /** Null where the codes of a page are longer than `maxListedCode` altogether. */
  readonly code: string | null;
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
    `select version, created_at, entry_point, created_by,
       case when sum(octet_length(code)) over (order by version desc) <= $4 then code end as code
     from (select * from function_versions where function_id = $1 order by version desc limit $2 offset $3) as page
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
      `select entry_point, code, compiled, timeout_ms, memory_mb, env_sealed from function_versions
       where function_id = $1 and version = $2`,
      [functionId, version],
    ),
  );

export interface RolledBack {
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
  await replaceCode(db, id, earlier, userId);
  const row = await findFunction(db, projectId, id);
  if (row === undefined) throw notFound('function');
  return { row, rolled_back_to: version, saved_as: present.version };
};
