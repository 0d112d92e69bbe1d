import type { Queryable } from '#lib/control-db.ts';
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
  /** Accepted at this time or later. */
  readonly since?: Date | undefined;
  /** Accepted before this time. */
  readonly until?: Date | undefined;
}

/** A project or function as people name it: by id, ref, slug or name. */
export interface Named {
  readonly project?: string | undefined;
  readonly function?: string | undefined;
}

const maxNamed = 50;

/** The payload is text within this text, where quotes are escaped: what is found is the key that we wrote. */
export const functionOf = (job: string): string =>
  `case when ${job}.type = '${functionInvoke.type}' then substring(${job}.data from '^\\{"function_id":"([0-9a-f-]{36})"') end`;

const likePattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

/**
 * Finds the projects and functions that are meant. A function bounds the projects, too, so that only their jobs are read.
 * @returns empty lists where nothing has that name
 */
export const idsOfNamed = async (
  db: Queryable,
  { project, function: named }: Named,
): Promise<Pick<JobFilter, 'projectIds' | 'functionIds'>> => {
  const projects =
    project === undefined
      ? undefined
      : await db.query<{ id: string }>(
          `select id from projects where id::text = $1 or ref = $1 or slug = $1 or lower(name) = lower($1)
           order by created_at desc limit ${maxNamed}`,
          [project],
        );
  if (named === undefined) return { projectIds: projects?.map(({ id }) => id) };
  const functions = await db.query<{ id: string; project_id: string }>(
    `select id, project_id from functions
     where (id::text = $1 or slug = $1 or lower(name) = lower($1)) and ($2::uuid[] is null or project_id = any ($2))
     order by created_at desc limit ${maxNamed}`,
    [named, projects?.map(({ id }) => id) ?? null],
  );
  return { projectIds: functions.map((one) => one.project_id), functionIds: functions.map(({ id }) => id) };
};

// Unnamed statements are planned for their values: a null takes its condition out of the plan.
export const filterSql = `($1::uuid[] is null or j.id = any ($1)) and ($2::uuid[] is null or j.project_id = any ($2))
  and ($3::text[] is null or ${functionOf('j')} = any ($3)) and ($4::text is null or j.type = $4)
  and ($5::text[] is null or j.status = any ($5)) and ($6::text is null or j.error_code = $6)
  and ($7::text is null or (j.error_code is not null and j.error_message ilike $7))
  and ($8::text is null or j.request_id = $8) and ($9::uuid is null or j.id >= $9) and ($10::uuid is null or j.id < $10)`;

/** So many values `filterSql` takes. */
export const filterSize = 10;

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
];
