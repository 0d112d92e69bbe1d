import { type CallEnd, type CallIntent, maxNanoUsd, maxTokens } from './calls.ts';

/** Calls as statements take them: one JSON list, which costs either side less than an array for each column. */

export interface EndedCall {
  readonly intent: CallIntent;
  readonly end: CallEnd;
}

const intentColumns = 'id uuid, project_id uuid, kind text, provider text, model text, request_id text, ms float8';

/** Rows of `$1`, with the time as such. */
export const givenIntents = `
  select id, project_id, kind, provider, model, request_id, to_timestamp(ms / 1000.0) as started_at, wanted
  from json_to_recordset($1::json) as given (${intentColumns}, wanted bigint)`;

/** Rows of `$1`, in the order of the columns of `endedColumns`. */
export const givenEnds = `
  select id, project_id, kind, provider, model, request_id, to_timestamp(ms / 1000.0) as started_at, status,
    prompt_tokens, completion_tokens, tokens_source, cost_nano_usd, latency_ms, ttft_ms, error_code, cached_tokens,
    cache_write_tokens, reasoning_tokens, service_tier
  from json_to_recordset($1::json) as given (${intentColumns}, status text, prompt_tokens int, completion_tokens int,
    tokens_source text, cost_nano_usd bigint, latency_ms int, ttft_ms int, error_code text,
    cached_tokens int, cache_write_tokens int, reasoning_tokens int, service_tier text)`;

export const endedColumns = `id, project_id, kind, provider, model, request_id, started_at, status, prompt_tokens,
  completion_tokens, tokens_source, cost_nano_usd, latency_ms, ttft_ms, error_code, cached_tokens,
  cache_write_tokens, reasoning_tokens, service_tier, reserved_nano_usd, keeper`;

/** The columns that an end changes of an intent `c`; a call that has ended stays as it is. */
export const onConflictEnd = `
  on conflict (id) do update set status = excluded.status, prompt_tokens = excluded.prompt_tokens,
    completion_tokens = excluded.completion_tokens, tokens_source = excluded.tokens_source,
    cost_nano_usd = excluded.cost_nano_usd, latency_ms = excluded.latency_ms, ttft_ms = excluded.ttft_ms,
    error_code = excluded.error_code, cached_tokens = excluded.cached_tokens,
    cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens,
    service_tier = excluded.service_tier, reserved_nano_usd = 0
  where c.status in ('open', 'incomplete')`;

const intentRow = ({ id, projectId, kind, provider, model, requestId, startedAt }: CallIntent) => ({
  id,
  project_id: projectId,
  kind,
  provider,
  // Half a character is none to Postgres.
  model: model.toWellFormed(),
  request_id: requestId,
  ms: startedAt.getTime(),
});

export const intentsText = (intents: readonly CallIntent[]): string =>
  JSON.stringify(intents.map((intent) => ({ ...intentRow(intent), wanted: Math.ceil(intent.reserveNanoUsd ?? 0) })));

const maxInteger = 2_147_483_647;

/** A provider's figures may have any value. */
const whole = (value: number | null | undefined, max = maxInteger): number | null =>
  value === null || value === undefined || !(value >= 0) ? null : Math.min(Math.round(value), max);

/** Most calls have none of them. */
const detailsRow = ({ usage }: CallEnd) => ({
  cached_tokens: usage?.cached_tokens,
  cache_write_tokens: usage?.cache_write_tokens,
  reasoning_tokens: usage?.reasoning_tokens,
  service_tier: usage?.service_tier,
});

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
  ...detailsRow(end),
});

export const endsText = (calls: readonly EndedCall[]): string => JSON.stringify(calls.map(endRow));
