import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import type { RunStatus, functionInvoke } from '#queues/function-invoke.ts';
import type { JobData } from '#queues/define.ts';
import { firstIdAt } from '#lib/ids.ts';
import { type KeptLine, logLinesAfter } from '#domain/jobs/logs.ts';

type Trigger = JobData<typeof functionInvoke>['trigger'];

/** A run of a function; one that goes on has the status of its job. */
export interface InvocationRow {
  readonly id: string;
  readonly function_id: string;
  readonly version: number;
  readonly trigger: Trigger;
  readonly status: RunStatus | 'queued' | 'running' | 'waiting';
  readonly duration_ms: number | null;
  readonly cpu_ms: number | null;
  readonly memory_peak_mb: number | null;
  /** Milliseconds; null: it goes on, or nobody reported them. */
  readonly queue_ms: number | null;
  readonly start_ms: number | null;
  readonly database_ms: number | null;
  readonly fetch_ms: number | null;
  readonly started_at: Date | null;
  /** JSON text. */
  readonly error: string | null;
  /** JSON text; null: no line. */
  readonly logs: string | null;
  readonly logs_truncated: boolean;
}

const common = `id, function_id, version, trigger, status, duration_ms, cpu_ms, memory_peak_mb, queue_ms, start_ms,
  database_ms, fetch_ms, started_at, error`;

interface InvocationFilter {
  readonly status?: RunStatus | undefined;
  readonly trigger?: Trigger | undefined;
  readonly version?: number | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** A busy function keeps millions of runs; reading them all for each page would cost seconds. */
const maxCounted = 100_000;

const those = `from invocations where function_id = $1 and ($2::text is null or status = $2)
  and ($3::text is null or trigger = $3) and ($4::int is null or version = $4)`;

const amongLatest = `and id >= coalesce(
  (select id from invocations where function_id = $1 order by id desc offset ${maxCounted - 1} limit 1),
  '00000000-0000-0000-0000-000000000000')`;

/** All runs and the failures of one kind have an index of their own. */
const isIndexed = ({ status, trigger, version }: InvocationFilter): boolean =>
  trigger === undefined && version === undefined && status !== 'success';

/**
 * A function's finished runs, the latest first, each with the end of its log; counted up to 100,000. A filter for more
 * than a failure reads the latest 100,000.
 */
export const listInvocations = async (
  db: Queryable,
  functionId: string,
  filter: InvocationFilter,
): Promise<{ invocations: InvocationRow[]; total: number }> => {
  const { status, trigger, version, limit, offset } = filter;
  const found = isIndexed(filter) ? those : `${those} ${amongLatest}`;
  const which = [functionId, status ?? null, trigger ?? null, version ?? null];
  const [invocations, { total }] = await Promise.all([
    db.query<InvocationRow>(
      `select ${common}, coalesce(log_tail, logs) as logs, logs_truncated or log_tail is not null as logs_truncated
       ${found} order by id desc limit $5 offset $6`,
      [...which, limit, offset],
    ),
    one(
      db.query<{ total: number }>(`select count(*) as total from (select ${found} limit ${maxCounted}) counted`, which),
    ),
  ]);
  return { invocations, total };
};

const findFinished = (db: Queryable, functionId: string, id: string): Promise<InvocationRow | undefined> =>
  maybeOne(
    db.query<InvocationRow>(
      `select ${common}, logs, logs_truncated from invocations where function_id = $1 and id = $2`,
      [functionId, id],
      'find-invocation',
    ),
  );

// The data of a job begins with {"function_id":"…","version":1,"trigger":"…": migrations/control/0006_invocations.ts
// reads it in the same way.
const given = `string_to_array(left(j.data, 200), '"')`;
const version = `trim(both ':,' from (${given})[7])::int`;

const findUnfinished = (db: Queryable, functionId: string, id: string): Promise<InvocationRow | undefined> =>
  maybeOne(
    db.query<InvocationRow>(
      `select id, status, started_at, given[4] as function_id, version, given[10] as trigger,
         null as duration_ms, null as cpu_ms, null as memory_peak_mb, null as queue_ms, null as start_ms,
         null as database_ms, null as fetch_ms, null as error, null as logs,
         false as logs_truncated
       from (
         select j.id, j.status, j.started_at, ${given} as given, ${version} as version from jobs j
         where j.id = $2 and j.type = 'function.invoke' and j.status in ('queued', 'running', 'waiting')) as job
       where given[4] = $1`,
      [functionId, id],
      'find-open-invocation',
    ),
  );

const withLogSoFar = async (db: Queryable, row: InvocationRow): Promise<InvocationRow> => {
  const lines = await logLinesAfter(db, row.id, 0);
  return { ...row, logs: lines.length === 0 ? null : JSON.stringify(lines.map(shownLine)) };
};

const shownLine = ({ line: _place, ...line }: KeptLine): Omit<KeptLine, 'line'> => line;

/** First whether it goes on: a run that was started again by hand has a record of the first time. */
const findRun = async (db: Queryable, functionId: string, id: string): Promise<InvocationRow | undefined> =>
  (await findUnfinished(db, functionId, id)) ?? findFinished(db, functionId, id);

export const goesOn = ({ status }: InvocationRow): boolean =>
  status === 'queued' || status === 'running' || status === 'waiting';

/**
 * A run with its whole log; one that goes on with what is known so far.
 * @throws {ServiceError} `not_found`
 */
export const getInvocation = async (db: Queryable, functionId: string, id: string): Promise<InvocationRow> => {
  const row = await findRun(db, functionId, id);
  if (row === undefined) throw notFound('invocation');
  return goesOn(row) ? withLogSoFar(db, row) : row;
};

/** The input of a run, from its job or its record. */
export const givenTo = async (
  db: Queryable,
  functionId: string,
  id: string,
): Promise<Pick<JobData<typeof functionInvoke>, 'version' | 'payload' | 'request'> | undefined> => {
  const row = await maybeOne(
    db.query<{ data: string }>(
      `select data from invocations where id = $1 and function_id = $2
       union all
       select j.data from jobs j where j.id = $1 and j.type = 'function.invoke' and (${given})[4]::uuid = $2 limit 1`,
      [id, functionId],
    ),
  );
  return row && (JSON.parse(row.data) as JobData<typeof functionInvoke>);
};

/** Which version a job runs, or ran. */
export const versionOfRun = async (db: Queryable, jobId: string): Promise<number | undefined> => {
  const row = await maybeOne(
    db.query<{ version: number }>(
      `select version from invocations where id = $1
       union all select ${version} from jobs j where j.id = $1 and j.type = 'function.invoke' limit 1`,
      [jobId],
    ),
  );
  return row?.version;
};

/** Deletes runs that are kept no longer, some at a time; answers how many. */
export const deleteOldInvocations = async (db: Queryable, days: number, max: number): Promise<number> => {
  const before = firstIdAt(Date.now() - days * 24 * 3600 * 1000);
  const gone = await db.query(
    `delete from invocations where id in (
       select id from invocations where id < $1 and finished_at < now() - make_interval(days => $2)
       order by id limit $3 for update skip locked) returning id`,
    [before, days, max],
  );
  return gone.length;
};

/** Deletes runs of functions that were deleted, some at a time; answers how many. */
export const deleteOrphanedInvocations = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from invocations where id in (
       select i.id from deleted_functions f cross join lateral (
         select id from invocations where function_id = f.id limit $1 for update skip locked) i
       limit $1) returning id`,
    [max],
  );
  // Runs that still go on end within the day; those that waited longer are deleted with the others of their age.
  if (gone.length === 0) await db.query(`delete from deleted_functions where deleted_at < now() - interval '1 day'`);
  return gone.length;
};
