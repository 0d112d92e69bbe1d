/*
 * The ends of a project's jobs as lines of its log: what a function logs is in the record of its run, and what became
 * of a job of any kind is in its row.
 */
import { z } from 'zod';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { bounded } from './filter.ts';
import type { LogLevel } from './logs.ts';
import type { JobStatus } from './store.ts';

/** The end of a job. */
export interface JobEndLine {
  readonly id: string;
  readonly type: string;
  readonly status: JobStatus;
  readonly attempt: number;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly request_id: string;
  readonly finished_at: Date;
}

interface EndFilter {
  /** A part of the error, or of the kind of job. */
  readonly text?: string | undefined;
  readonly levels?: readonly LogLevel[] | undefined;
  readonly since?: Date | undefined;
  readonly requestId?: string | undefined;
  /** As an earlier page gave it. */
  readonly cursor?: string | undefined;
  readonly limit: number;
}

const levels: Readonly<Partial<Record<JobStatus, LogLevel>>> = {
  succeeded: 'info',
  cancelled: 'warn',
  failed: 'error',
  dead: 'error',
  expired: 'error',
};

/** The level of a line about a job that ended so. */
export const levelOfEnd = (status: JobStatus): LogLevel => levels[status] ?? 'info';

const statusesOf = (wanted: readonly LogLevel[]): string[] =>
  Object.entries(levels)
    .filter(([, level]) => wanted.includes(level))
    .map(([status]) => status);

/** Microseconds since 1970, and the job. */
const cursorSchema = z.tuple([z.int().nonnegative(), z.uuid()]);

/** @throws {ServiceError} `validation_failed` */
const placeOf = (cursor: string): z.output<typeof cursorSchema> => {
  try {
    return cursorSchema.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()));
  } catch {
    throw new ServiceError('validation_failed', 'The query is not valid.', {
      details: [{ path: 'cursor', message: 'must be the `next` of an earlier page' }],
    });
  }
};

const pattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

// By jobs_project, from the latest back: jobs are listed by when they were accepted. Unnamed, so that it is planned for
// its values: a request is found by its own index.
const endsSql = `
  select id, type, status, attempt, error_code, error_message, request_id, finished_at,
    (extract(epoch from created_at) * 1000000)::bigint as accepted
  from jobs
  where project_id = $1 and finished_at is not null
    and ($2::bigint is null or (created_at, id) < (timestamptz 'epoch' + $2 * interval '1 microsecond', $3::uuid))
    and ($4::text is null or error_message ilike $4 or type ilike $4 or error_code ilike $4)
    and ($5::text[] is null or status = any ($5))
    and ($6::timestamptz is null or created_at >= $6) and ($7::text is null or request_id = $7)
  order by created_at desc, id desc limit $8`;

/**
 * Ends of jobs, the latest accepted first.
 * @returns `next` for `cursor`; null at the end
 * @throws {ServiceError} `validation_failed` for a cursor of nobody's, and for a search that takes more than 3 s
 */
export const listJobEnds = (
  db: ControlDb,
  projectId: string,
  { text, levels: wanted, since, requestId, cursor, limit }: EndFilter,
): Promise<{ readonly ends: JobEndLine[]; readonly next: string | null }> => {
  const [at, id] = cursor === undefined ? [null, null] : placeOf(cursor);
  const which = [text === undefined ? null : pattern(text), wanted === undefined ? null : statusesOf(wanted)];
  return bounded(db, async (tx) => {
    const rows = await tx.query<JobEndLine & { accepted: number }>(endsSql, [
      projectId,
      at,
      id,
      ...which,
      since ?? null,
      requestId ?? null,
      limit + 1,
    ]);
    const ends = rows.slice(0, limit);
    const last = ends.at(-1);
    const isMore = rows.length > limit && last !== undefined;
    return { ends, next: isMore ? Buffer.from(JSON.stringify([last.accepted, last.id])).toString('base64url') : null };
  });
};
