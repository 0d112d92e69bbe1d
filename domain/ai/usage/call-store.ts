import { LRUCache } from 'lru-cache';
import type { Queryable } from '#lib/control-db.ts';
import { oneLineOf } from '#lib/one-line.ts';
import { type CallEnd, type CallIntent, maxNanoUsd, maxTokens } from './usage.ts';

/**
 * The SQL of ai_calls, of the sums in ai_budget_months that change with them, and of the heartbeats of the processes
 * that make calls. Calls are handed over as one JSON list, which costs either side less than an array for each column.
 */

export interface EndedCall {
  readonly intent: CallIntent;
  readonly end: CallEnd;
}

const typesOf = (columns: Readonly<Record<string, string>>): string =>
  Object.entries(columns)
    .map(([name, type]) => `${name} ${type}`)
    .join(', ');

const intentColumns = 'id, project_id, kind, provider, model, request_id, api_key_id, started_at';
const intentTypes =
  'id uuid, project_id uuid, kind text, provider text, model text, request_id text, api_key_id uuid, ms float8';
/** The columns that a call's end sets. */
const endTypes = {
  status: 'text',
  prompt_tokens: 'int',
  completion_tokens: 'int',
  tokens_source: 'text',
  cost_nano_usd: 'bigint',
  latency_ms: 'int',
  ttft_ms: 'int',
  error_code: 'text',
  cached_tokens: 'int',
  cache_write_tokens: 'int',
  reasoning_tokens: 'int',
  service_tier: 'text',
  error_message: 'text',
  retries: 'smallint',
} as const;
const endColumns = Object.keys(endTypes);

const selectGiven = (more: string, types: string): string => `
  select id, project_id, kind, provider, model, request_id, api_key_id, to_timestamp(ms / 1000.0) as started_at, ${more}
  from json_to_recordset($1::json) as given (${intentTypes}, ${types})`;

const givenIntents = selectGiven('wanted', 'wanted bigint');
/** Rows of `$1`, in the order of the columns of `endedColumns`. */
const givenEnds = selectGiven(endColumns.join(', '), typesOf(endTypes));
const endedColumns = `${intentColumns}, ${endColumns.join(', ')}, reserved_nano_usd, keeper`;

/** An end changes these columns of an intent `c`; a call that has ended stays as it is. */
const onConflictEnd = `
  on conflict (id) do update set ${endColumns.map((name) => `${name} = excluded.${name}`).join(', ')},
    reserved_nano_usd = 0
  where c.status in ('open', 'incomplete')`;

const intentRow = ({ id, projectId, kind, provider, model, requestId, apiKeyId, startedAt }: CallIntent) => ({
  id,
  project_id: projectId,
  kind,
  provider,
  // Half a character is none to Postgres.
  model: model.toWellFormed(),
  request_id: requestId,
  ...(apiKeyId !== null && { api_key_id: apiKeyId }),
  ms: startedAt.getTime(),
});

const intentsText = (intents: readonly CallIntent[]): string =>
  JSON.stringify(intents.map((intent) => ({ ...intentRow(intent), wanted: Math.ceil(intent.reserveNanoUsd ?? 0) })));

const maxInteger = 2_147_483_647;

/** A provider's figures may have any value. */
const whole = (value: number | null | undefined, max = maxInteger): number | null =>
  value === null || value === undefined || !(value >= 0) ? null : Math.min(Math.round(value), max);

/** Providers say what they like, at any length. */
const maxErrorLength = 500;

const endRow = ({ intent, end }: EndedCall) => ({
  ...intentRow(intent),
  status: end.status,
  prompt_tokens: whole(end.usage?.prompt_tokens, maxTokens),
  completion_tokens: whole(end.usage?.completion_tokens, maxTokens),
  tokens_source: end.usage === null ? null : end.tokensSource,
  cost_nano_usd: whole(end.costNanoUsd, maxNanoUsd),
  latency_ms: whole(end.latencyMs),
  ttft_ms: whole(end.ttftMs),
  error_code: end.errorCode,
  error_message: end.errorMessage === null ? undefined : oneLineOf(end.errorMessage, maxErrorLength),
  retries: end.retries === 0 ? undefined : end.retries,
  // Most calls have none of these.
  cached_tokens: end.usage?.cached_tokens,
  cache_write_tokens: end.usage?.cache_write_tokens,
  reasoning_tokens: end.usage?.reasoning_tokens,
  service_tier: end.usage?.service_tier,
});

const endsText = (calls: readonly EndedCall[]): string => JSON.stringify(calls.map(endRow));

/** The first day (UTC) of a time's month, as SQL. */
export const monthOf = (time: string): string => `date_trunc('month', ${time} at time zone 'utc')::date`;
const dayOf = (time: string): string => `(${time} at time zone 'utc')::date`;

// Read in the statement that records, and locked until it is over: a budget that is made meanwhile waits, and counts
// it.
const budgetsOf = (calls: string): string => `
  budgets as materialized (
    select p.project_id, b.hard, b.most
    from (select distinct project_id from ${calls} order by 1) p, ai_budget_of(project_id) b
  )`;

/*
 * Most calls are of projects without a budget and of days that are not added up yet: the short statements record these,
 * and do nothing otherwise. A call cost PostgreSQL 60 µs with them and 400 to 650 µs with the whole ones in batches of
 * 16, alone 320 to 380 µs and 700 to 1,180 µs (decision 026).
 */

const beginShortSql = `
  with given as materialized (${givenIntents}), ${budgetsOf('given')}, recorded as (
    insert into ai_calls (${intentColumns}, reserved_nano_usd, keeper)
    select ${intentColumns}, wanted, $2::uuid from given
    where not exists (select from budgets)
    on conflict (id) do nothing
  )
  select project_id from budgets`;

const endShortSql = `
  with given as materialized (${givenEnds}), ${budgetsOf('given')}, late as materialized (
    select from ai_usage_rolled where closing >= (select ${dayOf('min(started_at)')} from given)
  ), recorded as (
    insert into ai_calls as c (${endedColumns})
    select *, 0, $2::uuid from given
    where not exists (select from budgets) and not exists (select from late)
    order by id
    ${onConflictEnd}
  )
  select from budgets union all select from late`;

/** @returns the projects with a budget; if there are any, nothing was recorded */
export const insertPlainIntents = async (
  db: Queryable,
  intents: readonly CallIntent[],
  heartbeat: string,
): Promise<readonly string[]> => {
  const values = [intentsText(intents), heartbeat];
  const rows = await db.query<{ project_id: string }>(beginShortSql, values, 'begin-plain-ai-calls');
  return rows.map((row) => row.project_id);
};

/** @returns whether they were recorded: all of them or none */
export const upsertPlainEnds = async (
  db: Queryable,
  calls: readonly EndedCall[],
  heartbeat: string,
): Promise<boolean> => {
  const refused = await db.query(endShortSql, [endsText(calls), heartbeat], 'end-plain-ai-calls');
  return refused.length === 0;
};

// All transactions take rows of ai_budget_months in one order. A batch grants its smallest requests, as many as fit: a
// refused request would not fit after them either. The row of the month has the sum that was granted, and the requests'
// running sum shows which those were.
const beginSql = `
  with given as materialized (
    select *, ${monthOf('started_at')} as month
    from (${givenIntents}
    ) timed
  ), ${budgetsOf('given')}, budgeted as materialized (
    select g.id, g.project_id, g.month, b.hard, b.most,
      (sum(g.wanted) over (partition by g.project_id, g.month order by g.wanted, g.id))::bigint as running
    from given g join budgets b using (project_id)
  ), months as (
    insert into ai_budget_months as m (project_id, month, reserved_nano_usd, moved_nano_usd)
    select project_id, month, granted, granted
    from (
      select project_id, month, coalesce(max(running) filter (where not hard or running <= most), 0) as granted
      from budgeted group by project_id, month order by project_id, month
    ) fresh
    on conflict (project_id, month) do update set (reserved_nano_usd, moved_nano_usd) = (
      select m.reserved_nano_usd + coalesce(max(b.running), 0), coalesce(max(b.running), 0)
      from budgeted b
      where b.project_id = m.project_id and b.month = m.month
        and (not b.hard or b.running <= b.most - m.used_nano_usd - m.reserved_nano_usd)
    )
    returning project_id, month, moved_nano_usd
  ), verdicts as materialized (
    select b.id, not b.hard or b.running <= m.moved_nano_usd as granted
    from budgeted b join months m using (project_id, month)
  ), kept_alive as (
    insert into ai_call_heartbeats (id) select $2::uuid where $3::boolean
    on conflict (id) do update set seen_at = now()
  ), kept as (
    insert into ai_calls
      (${intentColumns}, reserved_nano_usd, keeper)
    select g.id, g.project_id, g.kind, g.provider, g.model, g.request_id, g.api_key_id, g.started_at, g.wanted,
      $2::uuid
    from given g left join verdicts v using (id)
    where v.granted is not false
    on conflict (id) do nothing
  )
  select id, granted from verdicts`;

interface BatchHeartbeat {
  readonly heartbeat: string;
  /** Says beside it that the heartbeat lives. */
  readonly touch: boolean;
}

/**
 * Records intents and takes what they may cost of their projects' budgets, all in one statement.
 * @returns for calls of projects with a budget, by id, whether there was room for them; those without room are not
 * recorded
 */
const insertIntents = async (
  db: Queryable,
  intents: readonly CallIntent[],
  { heartbeat, touch }: BatchHeartbeat,
): Promise<ReadonlyMap<string, boolean>> => {
  const rows = await db.query<{ id: string; granted: boolean }>(
    beginSql,
    [intentsText(intents), heartbeat, touch],
    'begin-ai-calls',
  );
  return new Map(rows.map(({ id, granted }) => [id, granted]));
};

/** The largest integer that JSON readers and Postgres can add up: no sum fails, whatever providers report. */
export const maxSum = Number.MAX_SAFE_INTEGER;

// The second half of each statement that ends calls, from `changed` (id, project_id, started_at, cost_nano_usd) and
// `before` (id, cost, reserved).
const accountedFor = `
  moved as (
    select c.project_id, ${monthOf('c.started_at')} as month,
      sum(coalesce(c.cost_nano_usd, 0) - coalesce(b.cost, 0)) as used, sum(coalesce(b.reserved, 0)) as released
    from changed c left join before b using (id) group by 1, 2
  ), ${budgetsOf('changed')}, stale as (
    insert into ai_usage_stale (project_id, day)
    select distinct c.project_id, ${dayOf('c.started_at')} from changed c
    join ai_usage_rolled r on ${dayOf('c.started_at')} <= r.closing
    order by 1, 2
    on conflict do nothing
  ), accounted as (
    insert into ai_budget_months as m (project_id, month, used_nano_usd, moved_nano_usd)
    select project_id, month, used, released from moved join budgets using (project_id) order by project_id, month
    on conflict (project_id, month) do update set moved_nano_usd = excluded.moved_nano_usd,
      used_nano_usd = least(m.used_nano_usd + excluded.used_nano_usd, ${maxSum}),
      reserved_nano_usd = m.reserved_nano_usd - excluded.moved_nano_usd
  )
  select count(*) as calls from changed`;

// `before` locks what is there and comes first, since the rows to insert are joined with it. A call that ended is left
// as it is; one that was given up as incomplete gets its real end, and only the difference is accounted for.
const endSql = `
  with given as materialized (
    ${givenEnds}
  ), before as materialized (
    select id, cost_nano_usd as cost, reserved_nano_usd as reserved from ai_calls
    where id = any($2::uuid[]) and status in ('open', 'incomplete') order by id for update
  ), changed as (
    insert into ai_calls as c (${endedColumns})
    select g.*, 0, $3::uuid from given g left join before b using (id) order by g.id
    ${onConflictEnd}
    returning c.id, c.project_id, c.started_at, c.cost_nano_usd
  ), ${accountedFor}`;

/** Records ends, of calls whose intents are not there, too. What they cost goes from reserved to used, once. */
export const upsertEnds = async (db: Queryable, calls: readonly EndedCall[], heartbeat: string): Promise<void> => {
  await db.query(endSql, [endsText(calls), calls.map(({ intent }) => intent.id), heartbeat], 'end-ai-calls');
};

/** Records the beginnings and ends of calls: with the short statements first, where they will do. */
export interface CallRecorder {
  /** As `insertIntents`. */
  readonly intents: (calls: readonly CallIntent[], batch: BatchHeartbeat) => Promise<ReadonlyMap<string, boolean>>;
  /** As `upsertEnds`. */
  readonly ends: (calls: readonly EndedCall[], heartbeat: string) => Promise<void>;
}

export const createCallRecorder = (db: Queryable): CallRecorder => {
  /** Projects that had a budget when they were last seen; it decides only which statement is tried first. */
  const budgeted = new LRUCache<string, true>({ max: 10_000, ttl: 60_000 });

  return {
    intents: async (calls, batch) => {
      if (!batch.touch && !calls.some(({ projectId }) => budgeted.has(projectId))) {
        const found = await insertPlainIntents(db, calls, batch.heartbeat);
        if (found.length === 0) return new Map();
        for (const projectId of found) budgeted.set(projectId, true);
      }
      return insertIntents(db, calls, batch);
    },
    ends: async (calls, heartbeat) => {
      const isPlain = !calls.some(({ intent }) => budgeted.has(intent.projectId));
      if (!isPlain || !(await upsertPlainEnds(db, calls, heartbeat))) await upsertEnds(db, calls, heartbeat);
    },
  };
};

export const touchHeartbeat = async (db: Queryable, heartbeat: string): Promise<void> => {
  await db.query(
    'insert into ai_call_heartbeats (id) values ($1) on conflict (id) do update set seen_at = now()',
    [heartbeat],
    'touch-ai-call-heartbeat',
  );
};

export const deleteHeartbeat = async (db: Queryable, heartbeat: string): Promise<void> => {
  await db.query('delete from ai_call_heartbeats where id = $1', [heartbeat]);
};

/**
 * Gives up calls whose process was not seen for 30 s. Under a budget such a call counts with all that was kept free for
 * it, which is the most that the provider may ask for it; elsewhere what it cost is not known.
 * @returns how many there were
 */
export const closeLostCalls = async (db: Queryable, max: number): Promise<number> => {
  const [row] = await db.query<{ calls: number }>(
    `with before as materialized (
       select c.id, c.cost_nano_usd as cost, c.reserved_nano_usd as reserved from ai_calls c
       where c.status = 'open' and not exists (
         select from ai_call_heartbeats k where k.id = c.keeper and k.seen_at > now() - interval '30 seconds'
       ) order by c.id limit $1 for update skip locked
     ), changed as (
       update ai_calls c set status = 'incomplete', reserved_nano_usd = 0,
         cost_nano_usd = case when exists (select from ai_budgets g where g.project_id = c.project_id)
           then nullif(least(b.reserved, ${maxNanoUsd}), 0) end
       from before b where c.id = b.id
       returning c.id, c.project_id, c.started_at, c.cost_nano_usd
     ), ${accountedFor}`,
    [max],
  );
  return row?.calls ?? 0;
};

/** Heartbeats of processes that are gone. */
export const deleteOldHeartbeats = async (db: Queryable): Promise<void> => {
  await db.query(`delete from ai_call_heartbeats where seen_at < now() - interval '10 minutes'`);
};
