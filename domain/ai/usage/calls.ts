import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import { lastId, readPage } from '#lib/examined-page.ts';
import { firstIdAt } from '#lib/ids.ts';
import type { CallKind, CallStatus } from './usage.ts';
import { dayBegins, dayMs, marginMs } from './roll-up.ts';

/*
 * The calls of a project one by one. Their ids ascend with their beginnings, so that an id is the cursor of a list:
 * calls that begin while somebody reads on come before what was read.
 */

/** Parts of prompts and answers: they are in the sums of tokens, and are priced differently. */
export interface Details {
  readonly prompt_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

/** A call, as it is listed. */
export interface LoggedCall {
  readonly id: string;
  readonly created_at: Date;
  readonly kind: CallKind;
  readonly provider: string;
  readonly model: string;
  /** `open`: it is under way. */
  readonly status: CallStatus | 'open';
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly prompt_tokens_details: Details['prompt_tokens_details'] | null;
  readonly completion_tokens_details: Details['completion_tokens_details'] | null;
  /** Null: not reported. */
  readonly service_tier: string | null;
  readonly tokens_source: 'reported' | 'estimated' | null;
  /** Null: not known, since the model has no price. */
  readonly cost_nano_usd: number | null;
  readonly latency_ms: number | null;
  readonly ttft_ms: number | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly retries: number;
  /** Null: it was made without a key. */
  readonly api_key_id: string | null;
  readonly request_id: string;
}

/** The columns of a `LoggedCall`. */
export const callColumns = `id, started_at as created_at, kind, provider, model, status, prompt_tokens, completion_tokens,
  case when prompt_tokens is not null then json_build_object('cached_tokens', coalesce(cached_tokens, 0),
    'cache_write_tokens', coalesce(cache_write_tokens, 0)) end as prompt_tokens_details,
  case when completion_tokens is not null then
    json_build_object('reasoning_tokens', coalesce(reasoning_tokens, 0)) end as completion_tokens_details,
  service_tier, tokens_source, cost_nano_usd, latency_ms, ttft_ms, error_code, error_message,
  coalesce(retries, 0) as retries, api_key_id, request_id`;

/** Which calls; what is left out does not matter. */
interface CallFilter {
  readonly provider?: string | undefined;
  /** The provider's own id. */
  readonly model?: string | undefined;
  /** Null: calls that were made without a key. */
  readonly apiKeyId?: string | null | undefined;
  readonly kind?: CallKind | undefined;
  readonly status?: LoggedCall['status'] | undefined;
  /** UTC, such as 2026-01-31. */
  readonly day?: string | undefined;
  readonly requestId?: string | undefined;
}

interface CallList extends CallFilter {
  /** The id of a call: only those that began before it. */
  readonly before?: string | undefined;
  readonly limit: number;
}

const examined = `select * from ai_calls
  where project_id = $1 and id < $2 and id >= $3 and ($4::text is null or request_id = $4)`;

const fits = `($5::text is null or provider = $5) and ($6::text is null or model = $6)
  and ($7::uuid is null or api_key_id = $7) and (not $8 or api_key_id is null)
  and ($9::text is null or kind = $9) and ($10::text is null or status = $10)
  and ($11::date is null or (started_at at time zone 'utc')::date = $11)`;

/** Times come as texts within JSON. */
type CallRow = Omit<LoggedCall, 'created_at'> & { readonly created_at: string };

/** The ids that calls of a day may have. */
const boundsOf = (before: string, day: string | undefined): readonly [string, string] => {
  if (day === undefined) return [before, firstIdAt(0)];
  const end = firstIdAt(dayBegins(day) + dayMs + marginMs);
  return [before < end ? before : end, firstIdAt(dayBegins(day) - marginMs)];
};

/** The calls that fit, the latest first, with those that are under way; `next` is the `before` of the page behind. */
export const listCalls = async (
  db: Queryable,
  projectId: string,
  { before, limit, ...filter }: CallList,
): Promise<{ readonly calls: LoggedCall[]; readonly next: string | null }> => {
  const { provider, model, apiKeyId, kind, status, day, requestId } = filter;
  const { rows, next } = await readPage<CallRow>(db, {
    examined: [examined],
    columns: callColumns,
    fits,
    isFiltered: [provider, model, apiKeyId, kind, status, day].some((value) => value !== undefined),
    values: [
      projectId,
      ...boundsOf(before ?? lastId, day),
      requestId ?? null,
      provider ?? null,
      model ?? null,
      apiKeyId ?? null,
      apiKeyId === null,
      kind ?? null,
      status ?? null,
      day ?? null,
    ],
    limit,
  });
  return { calls: rows.map((row) => ({ ...row, created_at: new Date(row.created_at) })), next };
};

/** @throws {ServiceError} `not_found`, for those of other projects, too */
export const getCall = async (db: Queryable, projectId: string, id: string): Promise<LoggedCall> => {
  const call = await maybeOne(
    db.query<LoggedCall>(`select ${callColumns} from ai_calls where project_id = $1 and id = $2`, [projectId, id]),
  );
  if (call === undefined) throw notFound('call');
  return call;
};
