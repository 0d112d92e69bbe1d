import type { CompiledFilter } from '#domain/events/filter.ts';
import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';
import type { JobError } from '#queues/define.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { functionOf } from './filter.ts';

/*
 * The steps of runs (decision 077). A run whose code asks for steps has its results recorded one by one, so that it can
 * be continued: the code runs from the top again, and steps with a result answer from here.
 */

/** So many steps a run may have. */
export const maxSteps = 1000;
/** The bytes that their results, and what they wait for, may take together. */
export const maxStepBytes = 4 * 1024 * 1024;
/** A step that waits takes so much beside its texts: its row, its entries in indexes, and the comparisons. */
const waitBytes = 200;
/** From then on nothing waits any more: a time, or an event. */
export const maxWaitMs = 365 * 24 * 3600 * 1000;

type StepKind = 'run' | 'sleep' | 'event';
/** `waiting`: for a time or an event; `retrying`: for its next attempt; `cancelled`: its job ended meanwhile. */
type StepStatus = 'succeeded' | 'failed' | 'waiting' | 'retrying' | 'cancelled';

/** A step as a run that begins needs it. */
export interface RecordedStep {
  readonly name: string;
  readonly kind: StepKind;
  readonly status: StepStatus;
  readonly attempt: number;
  /** JSON text. */
  readonly result: string | null;
  /** JSON text, `{name, message, stack}`. */
  readonly error: string | null;
  /** Whether the next attempt may begin. */
  readonly due: boolean;
}

/** A run's steps as they are known when it first asks for one. */
export interface KnownSteps {
  readonly steps: readonly RecordedStep[];
  /** See `goToSleep`. */
  readonly wakes: number;
  readonly bytes: number;
  /** The job's own retry policy, else the function's. */
  readonly retry: RetryPolicy | null;
}

/** The run that asks: nothing is recorded for one that was taken from its worker. */
export interface StepRun {
  readonly jobId: string;
  readonly runId: string;
}

/** SQL: whether a run of `jobs` that broke off can be continued: it has recorded steps, or is of a function that has some. */
export const canContinue = `(has_steps
  or exists (select from stepped_functions s where s.function_id = (${functionOf('jobs')})::uuid))`;

const columns = 'name, kind, status, attempt, result, error';

// The steps and `wakes` are of one snapshot: an event that comes meanwhile changes both. Times that have come are
// recorded as they are found. Where the clock was set back since, the run goes to sleep once more.
const beginSql = `
  with own as (
    update jobs set has_steps = true where id = $1 and run_id = $2 and status = 'running' and not has_steps
    returning (${functionOf('jobs')})::uuid as function_id
  ), stepped as (
    insert into stepped_functions (function_id)
    select f.id from own join functions f on f.id = own.function_id
    where not exists (select from stepped_functions s where s.function_id = f.id)
    on conflict do nothing
  ), over as (
    update job_steps set status = 'succeeded', finished_at = clock_timestamp(), result = 'null'
    where job_id = $1 and kind <> 'run' and status = 'waiting' and due_at <= now()
    returning ${columns}
  ), known as (
    select ${columns}, false as due from over
    union all
    select ${columns}, coalesce(due_at <= now(), false) from job_steps
    where job_id = $1 and name not in (select name from over)
  )
  select j.step_wakes as wakes, j.step_bytes as bytes,
    coalesce(j.retry, (select f.retry from functions f
      where f.id = (${functionOf('j')})::uuid and f.project_id = j.project_id)) as retry,
    array(select name from known order by name) as names, array(select kind from known order by name) as kinds,
    array(select status from known order by name) as statuses,
    array(select attempt::int from known order by name) as attempts,
    array(select result from known order by name) as results, array(select error from known order by name) as errors,
    array(select due from known order by name) as dues
  from jobs j where j.id = $1 and j.run_id = $2 and j.status = 'running'`;

interface StartedRow extends Pick<KnownSteps, 'wakes' | 'bytes' | 'retry'> {
  readonly names: readonly string[];
  readonly kinds: readonly StepKind[];
  readonly statuses: readonly StepStatus[];
  readonly attempts: readonly number[];
  readonly results: readonly (string | null)[];
  readonly errors: readonly (string | null)[];
  readonly dues: readonly boolean[];
}

/**
 * Notes that a run has steps, so that it is continued when it breaks off, and answers those that are recorded: one
 * statement, however many there are. Undefined when the run is not its job's any more.
 */
export const beginSteps = async (db: Queryable, { jobId, runId }: StepRun): Promise<KnownSteps | undefined> => {
  const row = await maybeOne(db.query<StartedRow>(beginSql, [jobId, runId], 'begin-steps'));
  if (row === undefined) return undefined;
  const { wakes, bytes, retry, names, kinds, statuses, attempts, results, errors, dues } = row;
  const steps = names.map((name, at) => ({
    name,
    kind: kinds[at] ?? 'run',
    status: statuses[at] ?? 'failed',
    attempt: attempts[at] ?? 1,
    result: results[at] ?? null,
    error: errors[at] ?? null,
    due: dues[at] ?? false,
  }));
  return { wakes, bytes, retry, steps };
};

/** A step that got a result, failed, or begins to wait. */
export interface StepRecord extends StepRun {
  readonly name: string;
  readonly kind: StepKind;
  readonly status: Exclude<StepStatus, 'cancelled'>;
  readonly attempt: number;
  /** How long ago it began, by the worker's clock. */
  readonly tookMs: number;
  /** JSON text. */
  readonly result: string | null;
  /** JSON text. */
  readonly error: string | null;
  /** When it is over or tried again: from now on, or at a time. Left out: it does not wait. */
  readonly wait?: { readonly ms: number } | { readonly at: Date };
  readonly event?: string;
  readonly filter?: CompiledFilter | null;
}

/** The bytes that a step adds to those of its run. A filter of 4 KB is compiled to tens of them. */
export const bytesOfStep = ({ name, kind, result, error, event, filter }: StepRecord): number => {
  const texts = [result, error, event, filter?.table, filter?.other, kind === 'run' ? '' : name];
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
  return kind === 'run' ? bytes : bytes + waitBytes;
};

/** SQL: the same of a row that was recorded. */
export const storedBytesOf = (step: string): string =>
  `octet_length(concat(${['result', 'error', 'event', 'filter_table', 'filter_other'].map((column) => `${step}.${column}`).join(', ')}))
    + case when ${step}.kind = 'run' then 0 else octet_length(${step}.name) + ${waitBytes} end`;

// The row of the job first, always: whoever ends it, or wakes it, takes the locks in this order. A result stays as it
// was recorded first. A step that is there already was recorded by this very run, when the answer to its commit was lost.
const recordSql = `
  with given as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::int[], $7::float8[],
      $8::text[], $9::text[], $10::float8[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::int[])
      as g (job_id, run_id, name, kind, status, attempt, took_ms, result, error, wait_ms, wait_until, event,
        filter_table, filter_other, bytes)
  ), own as (
    update jobs j set crashes = 0, step_bytes = j.step_bytes + g.bytes
    from (select job_id, run_id, sum(bytes)::int as bytes from given group by job_id, run_id) as g
    where j.id = g.job_id and j.run_id = g.run_id and j.status = 'running'
    returning j.id, j.project_id
  ), made as (
  insert into job_steps as s (job_id, name, kind, status, attempt, started_at, finished_at, due_at, result, error,
    project_id, event, filter_table, filter_other)
  select job_id, name, kind, status, attempt, clock_timestamp() - make_interval(secs => took_ms / 1000),
    case when status in ('succeeded', 'failed') then clock_timestamp() end,
    coalesce(wait_until, now() + make_interval(secs => wait_ms / 1000)), result, error, project_id, event,
    filter_table::jsonpath, filter_other::jsonpath
  from given join own on own.id = given.job_id
  on conflict (job_id, name) do update set status = excluded.status, attempt = excluded.attempt,
    finished_at = excluded.finished_at, due_at = excluded.due_at, result = excluded.result, error = excluded.error
    where s.status = 'retrying'
  returning job_id, name
  )
  select job_id, name from made
  union
  select s.job_id, s.name from given join own on own.id = given.job_id
    join job_steps s on s.job_id = given.job_id and s.name = given.name`;

const keyOf = (jobId: string, name: string): string => `${jobId} ${name}`;

const waitOf = ({ wait }: StepRecord, by: 'ms' | 'at'): number | Date | null =>
  wait !== undefined && by in wait ? ((wait as Readonly<Record<string, number | Date>>)[by] ?? null) : null;

/**
 * Records steps of any number of runs with one statement.
 * @returns for each whether it is recorded: not when its run is not its job's any more
 */
export const recordSteps = async (db: Queryable, steps: readonly StepRecord[]): Promise<boolean[]> => {
  const rows = await db.query<{ job_id: string; name: string }>(
    recordSql,
    [
      steps.map((step) => step.jobId),
      steps.map((step) => step.runId),
      steps.map((step) => step.name),
      steps.map((step) => step.kind),
      steps.map((step) => step.status),
      steps.map((step) => step.attempt),
      steps.map((step) => step.tookMs),
      textArray(steps.map((step) => step.result)),
      textArray(steps.map((step) => step.error)),
      steps.map((step) => waitOf(step, 'ms')),
      steps.map((step) => waitOf(step, 'at')),
      steps.map((step) => step.event ?? null),
      steps.map((step) => step.filter?.table ?? null),
      steps.map((step) => step.filter?.other ?? null),
      steps.map(bytesOfStep),
    ],
    'record-steps',
  );
  const recorded = new Set(rows.map((row) => keyOf(row.job_id, row.name)));
  return steps.map(({ jobId, name }) => recorded.has(keyOf(jobId, name)));
};

/** A run that breaks off until one of its steps is over. */
export interface Sleep {
  readonly id: string;
  readonly runId: string;
  /** As `KnownSteps` had it: when an event has come since, the run goes on at once. */
  readonly wakes: number;
  /** For the record of the run, see `domain/functions/run-report.ts`. */
  readonly report: string | null;
  /** The failure of the steps that are tried again; null: user code threw. */
  readonly error: JobError | null;
}

// A run that waits for nothing but another attempt is queued with a due time, as one between two attempts is.
const sleepSql = `
  update jobs j set status = case when w.retries then 'queued' else 'waiting' end,
    step_wait = case when w.retries then 'retry' when w.events then 'event' else 'sleep' end,
    next_run_at = case when j.step_wakes <> $3 or j.cancel_requested_at is not null then now()
      else coalesce(w.due_at, now()) end,
    report = $4, reply_to = null, queued_at = coalesce(w.due_at, now()),
    error_code = case when w.retries then $5 end, error_message = case when w.retries then $6 end
  from (select min(due_at) as due_at, coalesce(bool_and(status = 'retrying'), false) as retries,
          coalesce(bool_or(event is not null), false) as events
        from job_steps where job_id = $1 and status in ('waiting', 'retrying')) as w
  where j.id = $1 and j.run_id = $2 and j.status = 'running'
  returning j.status, extract(epoch from j.next_run_at - now())::float8 * 1000 as in_ms`;

export interface Asleep {
  readonly status: 'queued' | 'waiting';
  /** When it is due. */
  readonly in_ms: number;
}

/** Puts a run to sleep until the first of its steps is over. Undefined when the run is not its job's any more. */
export const goToSleep = (db: Queryable, { id, runId, wakes, report, error }: Sleep): Promise<Asleep | undefined> =>
  maybeOne(
    db.query<Asleep>(
      sleepSql,
      [id, runId, wakes, report, error?.code ?? 'error', error?.message ?? 'A step failed.'],
      'put-run-to-sleep',
    ),
  );

/** The runs of a project that sleep. */
export interface AsleepOfProject {
  readonly runs: number;
  /** The size of their payloads and results. */
  readonly bytes: number;
  readonly plan: Plan;
}

/** Counts no further than `max` runs. */
export const asleepOf = (db: Queryable, projectId: string, max: number): Promise<AsleepOfProject> =>
  one(
    db.query<AsleepOfProject>(
      `select count(*)::int as runs, coalesce(sum(octet_length(data) + step_bytes), 0)::float8 as bytes,
         coalesce((select plan from projects where id = $1), 'free') as plan
       from (select data, step_bytes from jobs where project_id = $1 and status = 'waiting' limit $2) as asleep`,
      [projectId, max],
      'runs-asleep',
    ),
  );

/** A step as it is shown. */
export interface StepRow extends Pick<RecordedStep, 'name' | 'status' | 'attempt' | 'result' | 'error'> {
  readonly started_at: Date;
  readonly finished_at: Date | null;
}

/** The steps of a job in the order in which they began. */
export const stepsOf = (db: Queryable, jobId: string): Promise<StepRow[]> =>
  db.query<StepRow>(
    `select name, status, attempt, started_at, finished_at, result, error from job_steps
     where job_id = $1 order by started_at, name`,
    [jobId],
    'steps-of-job',
  );

export const hasStep = async (db: Queryable, jobId: string, name: string): Promise<boolean> =>
  (await db.query('select from job_steps where job_id = $1 and name = $2', [jobId, name])).length > 0;

/** Continues a run whose worker died: its steps are recorded. It keeps its place at the gate. */
export const continueCrashed = async (db: Queryable, run: StepRun & { readonly message: string }): Promise<boolean> => {
  const rows = await db.query(
    `with broken as (
       select j.id, j.attempt, j.worker_id, j.started_at from jobs j
       where j.id = $1 and j.run_id = $2 and j.status = 'running' for update
     ), kept as (
       insert into job_attempts (job_id, attempt, worker_id, started_at, error_code, error_message)
       select id, attempt, worker_id, started_at, 'crashed', $3 from broken
     )
     update jobs set status = 'queued', crashes = crashes + 1, step_wait = 'crash', next_run_at = null,
       error_code = 'crashed', error_message = $3, report = 'crashed'
     from broken where jobs.id = broken.id returning jobs.id`,
    [run.jobId, run.runId, run.message],
    'continue-crashed',
  );
  return rows.length > 0;
};
