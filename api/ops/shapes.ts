import { z } from 'zod';
import { type Overview, createOverview, jobTypes } from '#domain/ops/ops.ts';
import type { FoundJob } from '#domain/ops/search.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { sandboxLevels } from '#queues/function-invoke.ts';
import type { Deps } from '#api/deps.ts';
import { id, instant, namedObject, text, wholeNumber } from '#api/fields.ts';

/** The schemas that the operators' endpoints share. */

const overviews = new WeakMap<ControlDb, Overview>();

/** One for all calls of this process, so that its counts serve every operator. */
export const overviewOf = ({ db, gate }: Pick<Deps, 'db' | 'gate'>): Overview => {
  const known = overviews.get(db) ?? createOverview(db, gate);
  overviews.set(db, known);
  return known;
};

export const jobType = z.enum(jobTypes as [string, ...string[]], {
  error: `must be one of ${jobTypes.join(', ')}`,
});

export const status = z.enum(['queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled', 'expired', 'dead']);

export const errorCode = text(100, 1);

/** A list of operators: they page by hand, so not beyond what a person reads. */
export const page = z.object({
  limit: wholeNumber(50, 1, 200),
  offset: wholeNumber(0, 0, 10_000),
});

const count = z.int().nonnegative();
const rate = z.object({ minute: count, hour: count }).describe('In the last minute and the last hour.');

export const queue = namedObject('OpsQueue', {
  type: z.string(),
  pool: z.string(),
  open: z.boolean().nullable().describe('False while the gate is rebuilt from Postgres.'),
  paused: z.boolean().nullable(),
  waiting: count.nullable(),
  running: count.nullable().describe('Handed to workers: running, or about to.'),
  window: count.nullable().describe('At most so many are handed over.'),
  limit: count
    .nullable()
    .describe('How many run at a time on the whole installation; null: as many as there are slots.'),
  own_limit: count.nullable().describe('What operators set in place of PLINTH_GLOBAL_<TYPE>.'),
  slots: count.nullable(),
  workers_alive: count.nullable(),
  oldest_wait_seconds: z.number().nullable(),
  accepted: rate,
  finished: rate,
  failures: z
    .array(z.object({ code: z.string(), count }))
    .readonly()
    .describe('Of the last hour.'),
  dead: count,
  wait_ms: z.object({ p50: z.number().nullable(), p95: z.number().nullable() }),
});

const runningJob = z.object({
  id,
  type: z.string(),
  project_id: id,
  project_name: z.string().nullable(),
  function_name: z.string().nullable(),
  attempt: count,
  started_at: instant.nullable(),
});

/** How well functions are fenced in, by language. */
export const sandboxFacts = z.record(z.string(), z.enum(sandboxLevels));

export const worker = namedObject('Worker', {
  id: z.string(),
  name: z.string(),
  started_at: instant,
  sandbox: sandboxFacts.nullable(),
  queues: z.array(z.object({ type: z.string(), slots: count, running: count })).readonly(),
  jobs: z.array(runningJob).readonly(),
});

export const snapshot = z.object({
  at: instant,
  redis: z.boolean().describe('False: Redis does not answer; what only it knows is null.'),
  queues: z.array(queue).readonly(),
  workers: z.array(worker).readonly(),
});

export const foundJob = namedObject('OpsJob', {
  id,
  project_id: id,
  project_ref: z.string().nullable(),
  project_name: z.string().nullable(),
  function_id: id.nullable().describe('Of a run of a function.'),
  function_name: z.string().nullable().describe('Null when the function was deleted, too.'),
  type: z.string(),
  status,
  progress: z.number().nullable(),
  attempt: count,
  max_attempts: count,
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  request_id: z.string(),
  worker_id: z.string().nullable(),
  created_at: instant,
  next_run_at: instant.nullable(),
  started_at: instant.nullable(),
  finished_at: instant.nullable(),
});

export const shownJob = <Row extends FoundJob>({ error_code: code, error_message: message, ...row }: Row) => ({
  ...row,
  error: code === null ? null : { code, message: message ?? '' },
});
