import type { ControlDb, Tx } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { firstIdAt } from '#lib/ids.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { JobStatus } from './store.ts';

/** Which jobs; what is left out does not matter. */
export interface JobFilter {
  readonly ids?: readonly string[] | undefined;
  readonly projectIds?: readonly string[] | undefined;
  readonly functionIds?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly statuses?: readonly JobStatus[] | undefined;
  readonly errorCode?: string | undefined;
  /** A part of the error's message; upper and lower case are alike. */
  readonly errorText?: string | undefined;
  readonly requestId?: string | undefined;
  /** Its unique key, for as long as that keeps others away, or its concurrency key. */
  readonly key?: string | undefined;
  /** Accepted at this time or later. */
  readonly since?: Date | undefined;
  /** Accepted before this time. */
  readonly until?: Date | undefined;
}

/** The payload is text within this text, where quotes are escaped: what is found is the key that we wrote. */
export const functionOf = (job: string): string =>
  `case when ${job}.type = '${functionInvoke.type}'
     then substring(${job}.data from '^\\{"function_id":"([0-9a-f-]{36})"') end`;

const likePattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

// Unnamed statements are planned for their values: a null takes its condition out of the plan.
export const filterSql = `($1::uuid[] is null or j.id = any ($1)) and ($2::uuid[] is null or j.project_id = any ($2))
  and ($3::text[] is null or ${functionOf('j')} = any ($3)) and ($4::text is null or j.type = $4)
  and ($5::text[] is null or j.status = any ($5)) and ($6::text is null or j.error_code = $6)
  and ($7::text is null or (j.error_code is not null and j.error_message ilike $7))
  and ($8::text is null or j.request_id = $8)
  and ($9::uuid is null or j.id >= $9) and ($10::uuid is null or j.id < $10)
  and ($11::text is null or j.concurrency_key = $11
    or j.id in (select u.job_id from job_unique_keys u where u.key = $11 and u.function_id in (
      select f.id from functions f where $2::uuid[] is null or f.project_id = any ($2))))`;

/** So many values `filterSql` takes. */
export const filterSize = 11;

/** The values for `filterSql`, in order. Ids ascend with the time at which jobs were accepted. */
export const filterValues = (filter: JobFilter): unknown[] => [
  filter.ids ?? null,
  filter.projectIds ?? null,
  filter.functionIds ?? null,
  filter.type ?? null,
  filter.statuses ?? null,
  filter.errorCode ?? null,
  filter.errorText === undefined ? null : likePattern(filter.errorText),
  filter.requestId ?? null,
  filter.since === undefined ? null : firstIdAt(filter.since.getTime()),
  filter.until === undefined ? null : firstIdAt(filter.until.getTime()),
  filter.key ?? null,
];

// A search without an index to it may not keep the database busy.
const searchMs = 3000;

const tooSlow = (cause: unknown): ServiceError =>
  new ServiceError('validation_failed', 'This search looks at too many jobs.', {
    hint: 'Name a project or function, an error code, a shorter time or a status other than succeeded.',
    cause,
  });

/** A read that is given up after three seconds. */
export const bounded = async <T>(db: ControlDb, read: (tx: Tx) => Promise<T>): Promise<T> => {
  try {
    return await db.transaction(read, { statement_timeout: String(searchMs) });
  } catch (error) {
    throw error instanceof Error && Reflect.get(error, 'code') === '57014' ? tooSlow(error) : error;
  }
};
