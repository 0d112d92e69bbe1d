import { z } from 'zod';
import { type BulkAction, bulkStatuses } from '#domain/jobs/bulk.ts';
import { jobDetail, maxShownPayload } from '#domain/jobs/detail.ts';
import type { Jobs, Standing } from '#domain/jobs/jobs.ts';
import { type JobRow, errorOf } from '#domain/jobs/store.ts';
import { type StepRow, stepsOf } from '#domain/jobs/steps.ts';
import { publicAnswer } from '#domain/functions/run-report.ts';
import type { Queryable } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import { JsonText } from '#lib/json-text.ts';
import { endStatuses } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { jobs } from '#queues/registry.ts';
import { id, instant, namedObject } from '#api/fields.ts';

/** A job as its project sees it (contract, section 3). */

export const jobStatus = z.enum(['queued', 'running', 'waiting', ...endStatuses]);

const types = jobs.map(({ type }) => type);
export const jobType = z.enum(types, { error: `must be one of ${types.join(', ')}` });

/** The body of a change of many jobs. @param filterShape the fields that name jobs */
export const bulkBody = <Shape extends z.core.$ZodShape>(action: BulkAction, filterShape: Shape) =>
  z.strictObject({
    filter: z
      .strictObject({ ...filterShape, status: z.enum(bulkStatuses[action]).optional() })
      .refine((filter) => Object.values(filter).some((value) => value !== undefined), {
        error: 'must name something: an empty filter would be all jobs',
      }),
    dry_run: z.boolean().default(false).describe('Counts only.'),
  });

export const bulkResult = namedObject('BulkResult', {
  matched: z.int().describe('Counted up to 100,000.'),
  changed: z.int().describe('A call changes for at most 20 s: when this is less than matched, call again.'),
});

const step = namedObject('JobStep', {
  name: z.string().describe('Names that a run uses more than once are numbered.'),
  status: z
    .enum(['succeeded', 'failed', 'waiting', 'retrying', 'cancelled'])
    .describe('waiting: for a time or an event; cancelled: the job ended meanwhile.'),
  attempt: z.int(),
  started_at: instant,
  finished_at: instant.nullable(),
  result: z.unknown(),
  error: z.object({ name: z.string(), message: z.string(), stack: z.string() }).nullable(),
});

export const listedJob = z.object({
  id,
  type: z.string(),
  status: jobStatus,
  progress: z.number().nullable(),
  attempt: z.int(),
  max_attempts: z.int(),
  result: z.unknown(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  waiting_reason: z
    .enum([
      'project_limit',
      'organization_limit',
      'global_limit',
      'queue',
      'retry_backoff',
      'paused',
      'delayed',
      'concurrency',
      'rate_limited',
      'debounce',
      'batch',
      'step_sleep',
      'step_event',
    ])
    .nullable()
    .describe('Null when it does not wait, and while the queue is down.'),
  priority: z.int().describe('9 goes first among the jobs of its project.'),
  position: z.int().nullable().describe('Its place among the waiting jobs of its project, from 1 on.'),
  created_at: instant,
  started_at: instant.nullable(),
  finished_at: instant.nullable(),
  request_id: z.string(),
});

export const job = namedObject('Job', {
  ...listedJob.shape,
  steps: z.array(step).describe('In the order in which they began; empty for a job without.'),
});

/** As the page of one job shows it. */
export const detailedJob = job.extend({
  function_id: id.nullable().describe('The function that it runs; null for other jobs.'),
  payload: z
    .unknown()
    .describe(`What its function is called with; null when that is longer than ${maxShownPayload} bytes.`),
  attempts: z
    .array(
      z.object({
        attempt: z.int(),
        started_at: instant.nullable(),
        ended_at: instant,
        error: z.object({ code: z.string(), message: z.string() }),
      }),
    )
    .describe('The latest 50 that another one followed; the last attempt is that of the job.'),
});

type ListedJob = z.output<typeof listedJob>;
export type ShownJob = z.output<typeof job>;

/** A stored text as it is shown: numbers stay exact, and four megabytes of results are not built as values. */
const textOf = (text: string | null): JsonText | null => (text === null ? null : new JsonText(text));

export const resultOf = ({ result }: Pick<JobRow, 'result'>): unknown => textOf(result);

const shownAt = (row: JobRow, standing: Standing | null): ListedJob => ({
  ...row,
  result: resultOf(row),
  error: errorOf(row),
  waiting_reason: standing?.reason ?? null,
  position: standing?.position ?? null,
});

export const shownAll = async (queue: Pick<Jobs, 'places'>, rows: readonly JobRow[]): Promise<ListedJob[]> => {
  const standings = await queue.places(rows);
  return rows.map((row, i) => shownAt(row, standings[i] ?? null));
};

const shownStep = ({ result, error, ...rest }: StepRow): z.output<typeof step> => ({
  ...rest,
  result: resultOf({ result }),
  error: error === null ? null : (JSON.parse(error) as NonNullable<z.output<typeof step>['error']>),
});

interface Shows {
  readonly jobs: Pick<Jobs, 'places'>;
  readonly db: Queryable;
}

/** A job with its steps. */
export const shown = async ({ jobs: queue, db }: Shows, row: JobRow): Promise<ShownJob> => {
  const [[standing = null], steps] = await Promise.all([queue.places([row]), row.has_steps ? stepsOf(db, row.id) : []]);
  return { ...shownAt(row, standing), steps: steps.map(shownStep) };
};

/** A job with its steps, its attempts and its payload. */
export const shownInDetail = async (how: Shows, row: JobRow): Promise<z.output<typeof detailedJob>> => {
  const [seen, { attempts, payload, function_id }] = await Promise.all([shown(how, row), jobDetail(how.db, row.id)]);
  return {
    ...seen,
    function_id,
    payload: textOf(payload),
    attempts: attempts.map(({ error_code: code, error_message: message, ...attempt }) => ({
      ...attempt,
      error: { code, message },
    })),
  };
};

/**
 * Without a secret key: runs of functions only, and nothing of what a function says of its own inside.
 * @throws {ServiceError} `not_found` for other jobs
 */
export const shownInPublic = async (how: Shows, row: JobRow): Promise<ShownJob> => {
  if (row.type !== functionInvoke.type) throw notFound('job');
  const result = row.result === null ? null : publicAnswer(row.result);
  const seen = await shown(how, { ...row, result, has_steps: false });
  const code = seen.error?.code ?? '';
  return { ...seen, error: seen.error && { code, message: `The function failed (${code}).` } };
};
