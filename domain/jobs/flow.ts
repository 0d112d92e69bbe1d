import { setTimeout as pause } from 'node:timers/promises';
import { type ControlDb, type Queryable, type Tx, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { JobRef } from '#queues/define.ts';
import type { Batching, FlowControl, RateLimit } from '#queues/flow-control.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { type Part, inPart } from './queue-shards.ts';
import { insertJobs } from './store.ts';

/*
 * Flow control. A job whose function has a rate, batches or debounces waits as a row that is due at 'infinity' and has
 * no slot. It goes on by its row alone: into a batch, or with a slot, the time of its start. What a rate has given away
 * is one time in Postgres, so that all processes share it and no loss of Redis concerns it.
 */

/** The flow control of a function. */
export interface JobFlow extends FlowControl {
  readonly functionId: string;
}

/** A caller waits no longer than this for the rate of a function, whatever it prefers. */
const maxWaitMs = 60_000;

// By the theoretical arrival time of GCRA: the bucket is full when that has passed, and empty `burst` intervals before it.
const intervalOf = ({ per_second: perSecond }: RateLimit): number => 1 / perSecond;

/**
 * Seconds for which a rate may be used up at most. A time that lies behind that was written before the clock of the
 * database was set back.
 */
const maxAheadSeconds = (rate: RateLimit): number => (rate.burst + 2) * intervalOf(rate) + maxWaitMs / 1000;

/** SQL: until when the rate is used up, as a number of seconds from now. */
const usedFor = (usedUntil: string, max: string): string =>
  `greatest(0, least(extract(epoch from ${usedUntil} - now())::float8, ${max}::float8))`;

const limited = (waitSeconds: number, { per_second: perSecond }: RateLimit): ServiceError =>
  new ServiceError('rate_limited', `The function starts ${perSecond} times a second at most; nothing was started.`, {
    hint: 'Enqueue a job, which waits as long as it takes, or prefer a longer wait.',
    headers: { 'Retry-After': String(Math.max(1, Math.ceil(waitSeconds))) },
  });

/**
 * Takes the next start of a function for a caller that waits.
 * @returns the ms until that start
 * @throws {ServiceError} `rate_limited` with nothing taken, when it is later than the caller waits
 */
export const takeStart = async (
  db: Queryable,
  functionId: string,
  rate: RateLimit,
  waitMs: number,
): Promise<number> => {
  const interval = intervalOf(rate);
  const values = [functionId, interval, rate.burst, maxAheadSeconds(rate)];
  const taken = await maybeOne(
    db.query<{ wait: number }>(
      `insert into function_rates as r (function_id, used_until) values ($1, now() + make_interval(secs => $2))
       on conflict (function_id) do update
         set used_until = now() + make_interval(secs => ${usedFor('r.used_until', '$4')} + $2)
         where ${usedFor('r.used_until', '$4')} - ($3::int - 1) * $2::float8 <= $5::float8
       returning extract(epoch from used_until - now())::float8 - $3::int * $2::float8 as wait`,
      [...values, Math.min(waitMs, maxWaitMs) / 1000],
      'take-start',
    ),
  );
  if (taken !== undefined) return Math.max(0, taken.wait * 1000);
  const { wait } = await one(
    db.query<{ wait: number }>(
      `select ${usedFor('used_until', '$4')} - ($3::int - 1) * $2::float8 as wait from function_rates where function_id = $1`,
      values,
    ),
  );
  throw limited(wait, rate);
};

/** Holds a caller back until its function may start once more. @throws {ServiceError} `rate_limited` */
export const awaitStart = async (db: Queryable, flow: JobFlow | undefined, waitMs: number): Promise<void> => {
  if (flow === undefined || flow.rate === null) return;
  const delayMs = await takeStart(db, flow.functionId, flow.rate, waitMs);
  if (delayMs > 0) await pause(delayMs);
};

/** SQL: the job waits for its function to let it start. */
const isHeld = (job: string): string =>
  `${job}.status = 'queued' and ${job}.next_run_at = 'infinity' and ${job}.flow_of is not null and ${job}.slot_at is null`;

/** A function with jobs that it holds, as it is now. */
interface Holder {
  readonly project_id: string;
  readonly version: number;
  readonly retry: RetryPolicy | null;
  readonly rate: RateLimit | null;
  readonly batch: Batching | null;
}

/** The payloads of a batch are one payload, which has the limit of one. */
const maxBatchBytes = 6 * 1024 * 1024;
/** Batches that one transaction makes, so that it stays short. */
const maxBatches = 10;

interface Buffered {
  readonly id: string;
  readonly data: string;
  readonly priority: number;
  readonly depth: number;
  readonly request_id: string;
  /** Whether more wait than this batch takes, or the longest wait is over. */
  readonly is_due: boolean;
}

// No more is read than one batch takes: a row is at least as long as its payload, and all that wait may be gigabytes. The
// clock of the database may have been set back since they came.
const bufferedSql = `
  select id, data, priority, depth, request_id, is_due from (
    select *, count(*) over () = $3 or bool_or(is_over) over () or oldest <= now() - make_interval(secs => $4)
      or oldest > now() + interval '5 seconds' as is_due
    from (
      select *, sum(octet_length(data)) over w > $5 and row_number() over w > 1 as is_over,
        min(queued_at) over () as oldest
      from (
        select id, data, priority, depth, request_id, queued_at from jobs j
        where type = $1 and flow_of = $2 and batch_size is null and ${isHeld('j')}
        order by priority desc, id limit $3 for update skip locked) page
      window w as (order by priority desc, id)) measured) judged
  where not is_over
  order by priority desc, id`;

const payloadOf = ({ data }: Buffered): string => (JSON.parse(data) as { payload: string }).payload;

const batchRow = (functionId: string, fn: Holder, jobs: readonly Buffered[]) => {
  const { rate, retry, version, project_id: projectId } = fn;
  const payload = `[${jobs.map(payloadOf).join(',')}]`;
  const [first] = jobs;
  return {
    id: newId(),
    projectId,
    type: functionInvoke.type,
    data: JSON.stringify({ function_id: functionId, version, trigger: 'job', payload }),
    maxAttempts: Math.max(functionInvoke.maxAttempts, retry?.max_attempts ?? 0),
    requestId: first?.request_id ?? '',
    options: {
      batch_size: jobs.length,
      priority: first?.priority ?? 0,
      depth: Math.max(...jobs.map(({ depth }) => depth)),
      ...(retry && { retry }),
      ...(rate && { flow_of: functionId }),
    },
  };
};

/** Makes batches of jobs that have waited long enough, or are enough. Answers those that are ready for the gate. */
const makeBatches = async (tx: Tx, functionId: string, fn: Holder, batch: Batching): Promise<JobRef[]> => {
  const ready: JobRef[] = [];
  for (let made = 0; made < maxBatches; made += 1) {
    const given = [functionInvoke.type, functionId, batch.max_size, batch.max_wait_ms / 1000, maxBatchBytes];
    const jobs = await tx.query<Buffered>(bufferedSql, given, 'buffered-jobs');
    if (jobs[0]?.is_due !== true) break;
    const row = batchRow(functionId, fn, jobs);
    const inserted = await insertJobs(tx, [row]);
    await tx.query(
      'update jobs set batch_id = $2, slot_at = now(), expires_at = null where id = any ($1::uuid[])',
      [jobs.map(({ id }) => id), row.id],
      'put-into-batch',
    );
    const { id, type, projectId, options } = row;
    if (inserted.get(id) === true) ready.push({ id, type, projectId, priority: options.priority });
  }
  return ready;
};

interface Started {
  readonly id: string;
  readonly project_id: string;
  readonly priority: number;
  readonly key: string | null;
  readonly wait: number;
}

/** Starts of one function that a pass gives away. */
const maxStarts = 1000;

const releaseSql = (bounds: string): string => `
  update jobs set slot_at = now() + make_interval(secs => next.wait), next_run_at = case
      when next.wait > 0 then now() + make_interval(secs => next.wait)
      when concurrency_key is null then null else 'infinity' end
  from (
    select id, ${bounds} as wait from (
      select id, row_number() over (order by priority desc, id) - 1 as place from (
        select id, priority from jobs j where type = $1 and flow_of = $2 and (batch_size is not null or not $4) and ${isHeld('j')}
        order by priority desc, id limit $3 for update skip locked) page) placed) next
  where jobs.id = next.id
  returning jobs.id, jobs.project_id, jobs.priority, jobs.concurrency_key as key, next.wait`;

const releaseAll = (tx: Tx, functionId: string, batches: boolean): Promise<Started[]> =>
  tx.query<Started>(releaseSql('0::float8'), [functionInvoke.type, functionId, maxStarts, batches], 'release-all');

const hasReserved = async (tx: Tx, functionId: string): Promise<boolean> =>
  (
    await tx.query(
      `select from jobs where flow_of = $1 and status = 'queued' and next_run_at = slot_at limit 1`,
      [functionId],
      'has-reserved',
    )
  ).length > 0;

/**
 * Gives the next starts to the jobs that are next. Callers that wait take starts as well, and may be ahead of all that
 * is near: then one job at a time gets a start behind theirs, so that jobs get on beside any number of them.
 * @param horizonMs how far ahead starts are given away
 */
const releaseByRate = async (
  tx: Tx,
  functionId: string,
  { rate, batches }: { readonly rate: RateLimit; readonly batches: boolean },
  horizonMs: number,
): Promise<Started[]> => {
  const interval = intervalOf(rate);
  await tx.query(
    'insert into function_rates (function_id, used_until) values ($1, now()) on conflict do nothing',
    [functionId],
    'begin-rate',
  );
  const { used } = await one(
    tx.query<{ used: number }>(
      `select ${usedFor('used_until', '$2')} as used from function_rates where function_id = $1 for update`,
      [functionId, maxAheadSeconds(rate)],
      'lock-rate',
    ),
  );
  const first = used - (rate.burst - 1) * interval;
  const near = Math.floor((horizonMs / 1000 - first) / interval + 1e-9) + 1;
  const count = near > 0 ? near : (await hasReserved(tx, functionId)) ? 0 : 1;
  if (count <= 0) return [];
  const started = await tx.query<Started>(
    releaseSql('greatest(0, $5::float8 + place * $6::float8)'),
    [functionInvoke.type, functionId, Math.min(count, maxStarts), batches, first, interval],
    'release-by-rate',
  );
  await tx.query(
    `update function_rates set used_until = now() + make_interval(secs => $2) where function_id = $1`,
    [functionId, used + started.length * interval],
    'use-rate',
  );
  return started;
};

/** The jobs that a function has let go. */
export interface Released {
  /** For the gate. */
  readonly ready: readonly JobRef[];
  /** Concurrency keys of which jobs need places now. */
  readonly keyed: readonly { readonly projectId: string; readonly key: string }[];
  /** In how many ms others start. */
  readonly later: readonly number[];
}

const nothing: Released = { ready: [], keyed: [], later: [] };

const releasedOf = (batches: readonly JobRef[], started: readonly Started[]): Released => {
  const now = started.filter(({ wait }) => wait === 0);
  return {
    ready: [
      ...batches,
      ...now
        .filter(({ key }) => key === null)
        .map((job) => ({ id: job.id, type: functionInvoke.type, projectId: job.project_id, priority: job.priority })),
    ],
    keyed: now.flatMap(({ key, project_id: projectId }) => (key === null ? [] : [{ projectId, key }])),
    later: started.filter(({ wait }) => wait > 0).map(({ wait }) => wait * 1000),
  };
};

/**
 * Lets the jobs go that a function holds, as its rate and batches have it now: one process at a time. A function that is
 * gone, or controls nothing any more, lets go of all.
 * @param horizonMs how far ahead starts are given away
 */
export const releaseHeld = (db: ControlDb, functionId: string, horizonMs: number): Promise<Released> =>
  db.transaction(async (tx) => {
    const lock = `select pg_try_advisory_xact_lock(hashtextextended('flow of function ' || $1, 0)) as alone`;
    const { alone } = await one(tx.query<{ alone: boolean }>(lock, [functionId], 'lock-flow'));
    if (!alone) return nothing;
    const fn = await maybeOne(
      tx.query<Holder>(
        'select project_id, version, retry, rate, batch from functions where id = $1',
        [functionId],
        'holder-of-jobs',
      ),
    );
    const batches = fn?.batch ? await makeBatches(tx, functionId, fn, fn.batch) : [];
    const only = { batches: Boolean(fn?.batch) };
    if (fn?.rate)
      return releasedOf(batches, await releaseByRate(tx, functionId, { rate: fn.rate, ...only }, horizonMs));
    return releasedOf(batches, await releaseAll(tx, functionId, only.batches));
  });

/** Functions that a pass looks at: one step in an index for each. */
const maxHolders = 200;

/** SQL: the first function with held jobs behind some other one. */
const step = (behind: string): string => `
  select project_id, flow_of from jobs j where type = $1 and ${isHeld('j')} and flow_of > ${behind} order by flow_of limit 1`;

/** The first of each project, then the second, so that a project with many holds up no other. */
const inTurns = (holders: readonly { readonly project_id: string; readonly flow_of: string }[]): string[] => {
  const byProject = [...Map.groupBy(holders, (holder) => holder.project_id).values()];
  const longest = Math.max(0, ...byProject.map(({ length }) => length));
  return Array.from({ length: longest }, (_, turn) => byProject.flatMap((own) => own[turn]?.flow_of ?? [])).flat();
};

/**
 * Functions that hold jobs, behind those that were found before, in turns by project.
 * @returns no more than 200 of them, and where the next pass begins; null: at the beginning
 */
export const holdersOf = async (
  db: Queryable,
  { type, part, after }: { readonly type: string; readonly part: Part; readonly after: string | null },
): Promise<{ readonly found: readonly string[]; readonly last: string | null }> => {
  const rows = await db.query<{ project_id: string; flow_of: string; is_ours: boolean }>(
    `with recursive holders as (
       (${step('$2::uuid')})
       union all
       select n.* from holders h cross join lateral (${step('h.flow_of')}) n)
     select project_id, flow_of, ${inPart('$3', '$4')} as is_ours from holders limit ${maxHolders}`,
    [type, after ?? '00000000-0000-0000-0000-000000000000', part.count, part.index],
    'holders-of-jobs',
  );
  const found = inTurns(rows.filter(({ is_ours: isOurs }) => isOurs));
  return { found, last: rows.length === maxHolders ? (rows.at(-1)?.flow_of ?? null) : null };
};

/**
 * Jobs whose start lies further ahead than any that is given away got it before the clock of the database was set back;
 * they are given another one.
 */
export const renewStarts = async (db: Queryable): Promise<void> => {
  await db.query(
    `update jobs set slot_at = null, next_run_at = 'infinity' from functions f
     where jobs.status = 'queued' and jobs.next_run_at = jobs.slot_at and f.id = jobs.flow_of
       and (f.rate is null or jobs.slot_at > now() + make_interval(
         secs => ((f.rate ->> 'burst')::float8 + 2) / (f.rate ->> 'per_second')::float8 + $1::float8))`,
    [maxWaitMs / 1000],
    'renew-starts',
  );
};

/** The rate of a function is another one: what was given away by the one before is taken back. */
export const forgetStarts = async (db: Queryable, functionId: string): Promise<void> => {
  await db.query('delete from function_rates where function_id = $1', [functionId]);
  await db.query(
    `update jobs set slot_at = null, next_run_at = 'infinity'
     where status = 'queued' and next_run_at = slot_at and flow_of = $1`,
    [functionId],
  );
};

/** Rates of functions that are gone, some at a time. */
export const sweepRates = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from function_rates where function_id in (
       select function_id from function_rates r where used_until < now()
         and not exists (select from functions f where f.id = r.function_id) limit $1) returning function_id`,
    [max],
  );
  return gone.length;
};
