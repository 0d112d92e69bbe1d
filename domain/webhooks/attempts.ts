import { quoted } from '#domain/mail/message.ts';
import type { Notice } from '#domain/mail/mail.ts';
import { type Queryable, type Tx, maybeOne } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { type Answered, maxDataBytes } from './message.ts';
import { quickMs } from './scheduler.ts';
import type { SealedWebhook } from './secrets.ts';
import type { EventRow, WebhookRow } from './store.ts';

/**
 * Seconds between attempts: 5 s, 5 and 30 min, 2, 5, 10, 14, 20 and 24 h. After the last one the delivery is exhausted.
 */
const pauses = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];

/** A factor for a pause, a tenth more or less than 1, so that what failed together does not come back together. */
export const spread = (random: () => number = Math.random): number => 0.9 + 0.2 * random();

/**
 * After so many failures in a row the circuit breaker leaves one attempt at a time, with these pauses, doubled each
 * time.
 */
const breakAfter = 5;
const [minPauseSeconds, maxPauseSeconds] = [5, 300];

/** A webhook becomes inactive after so many days and attempts of nothing but failures. */
const [disableAfterDays, disableAfterTries] = [5, 10];
/** Failures are forgotten when nothing was tried for so many days, which is longer than any pause. */
const forgottenDays = 2;

/** A try, by its delivery and its job. */
export interface TryRef {
  readonly deliveryId: string;
  readonly jobId: string;
}

type SubscribedWebhook = SealedWebhook &
  Pick<WebhookRow, 'kind' | 'send_secret'> & {
    /** Null: it is no trigger. */
    readonly function_id: string | null;
    readonly retry: RetryPolicy | null;
  };

/** The data of one attempt. */
export interface LoadedTry {
  readonly deliveryId: string;
  /** 0: this is the first one. */
  readonly triesBefore: number;
  /** Whether the webhook receives it: it is active, or is being tested. */
  readonly isWanted: boolean;
  /** The event as the webhook asked for it. */
  readonly name: string;
  /** `data` is empty where `isLarge`. */
  readonly event: EventRow;
  /** How many jobs stand behind the event that each led to the next. */
  readonly depth: number;
  /** The data are left out of deliveries. */
  readonly isLarge: boolean;
  readonly webhook: SubscribedWebhook;
  /** The version of its address and secrets. */
  readonly version: number;
  readonly project: { readonly id: string; readonly name: string; readonly data_key: Buffer };
}

type Row = Omit<SubscribedWebhook, 'id'> & {
  readonly delivery_id: string;
  readonly attempt: number;
  readonly event: string;
  readonly event_id: string;
  readonly of_event: string;
  readonly event_at: Date;
  readonly data: string | null;
  readonly depth: number;
  readonly webhook_id: string;
  readonly is_wanted: boolean;
  readonly version: number;
  readonly project_id: string;
  readonly project_name: string;
  readonly data_key: Buffer;
};

const loadSql = `
  select d.id as delivery_id, d.attempt, d.event, e.id as event_id, e.event as of_event, e.created_at as event_at,
    case when octet_length(e.data::text) <= ${maxDataBytes} then e.data::text end as data,
    w.id as webhook_id, w.kind, w.url, w.url_sealed, w.secret_sealed, w.previous_secret_sealed, w.previous_secret_until,
    w.send_secret, w.version, w.function_id, w.retry, e.depth,
    w.deleted_at is null and p.deleted_at is null and (w.is_active or d.event like 'test.%') as is_wanted,
    p.id as project_id, p.name as project_name, p.data_key
  from unnest($1::uuid[], $2::uuid[]) as tried (delivery_id, job_id)
    join webhook_deliveries d on d.id = tried.delivery_id and d.job_id = tried.job_id
    join outbox_events e on e.id = d.event_id
    join webhooks w on w.id = d.webhook_id
    join projects p on p.id = w.project_id`;

const loadedOf = (row: Row): LoadedTry => ({
  deliveryId: row.delivery_id,
  triesBefore: row.attempt,
  isWanted: row.is_wanted,
  name: row.event,
  event: {
    id: row.event_id,
    project_id: row.project_id,
    event: row.of_event,
    data: row.data ?? '',
    created_at: row.event_at,
  },
  depth: row.depth,
  isLarge: row.data === null,
  webhook: { ...row, id: row.webhook_id },
  version: row.version,
  project: { id: row.project_id, name: row.project_name, data_key: row.data_key },
});

/** Loads attempts, in their order; null where the delivery is gone or waits for another attempt. */
export const loadTries = async (db: Queryable, tries: readonly TryRef[]): Promise<(LoadedTry | null)[]> => {
  const rows = await db.query<Row>(
    loadSql,
    [tries.map((each) => each.deliveryId), tries.map((each) => each.jobId)],
    'load-tries',
  );
  const found = new Map(rows.map((row) => [row.delivery_id, loadedOf(row)]));
  return tries.map(({ deliveryId }) => found.get(deliveryId) ?? null);
};

/** One try of a delivery, and whose it was. */
export interface WebhookAttempt extends Answered, TryRef {
  /** JSON text, without secrets. */
  readonly requestHeaders: string;
  readonly webhookId: string;
  /**
   * The webhook's version when it was sent; null: the attempt says nothing of its receiver, since it ended on our side.
   */
  readonly version: number | null;
}

/** The state of a delivery after an attempt. */
export interface Recorded {
  readonly deliveryId: string;
  readonly status: 'success' | 'failed' | 'exhausted' | 'skipped';
}

/** A webhook that is to be made inactive, and why. */
export interface WebhookToDisable {
  readonly webhookId: string;
  /** The webhook that was tried. */
  readonly version: number;
  readonly reason: 'gone' | 'failing';
}

/** Tries of one delivery that are kept: ten by themselves, further ones are asked for by hand. */
const maxAttempts = 50;

/** In place of the headers of an attempt that sent nothing: it is not counted. */
export const nothingSent = '';
/** In place of the headers of an attempt that may have been sent, which is unknown. */
export const noHeaders = '{}';

// The attempts so far and this one, if something was sent: the oldest is dropped when there are too many.
const attemptsSql = `case when j.counts = 1
  then case when jsonb_array_length(d.attempts) >= ${maxAttempts} then d.attempts - 0 else d.attempts end
    || jsonb_build_object(
      'at', to_char(
        (clock_timestamp() - make_interval(secs => coalesce(j.response_time_ms, 0) / 1000.0)) at time zone 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'status_code', j.status_code, 'error', left(j.error, 1000), 'response_time_ms', j.response_time_ms)
  else d.attempts end`;

// Only the attempt that the delivery waits for counts, since one that was given up or asked for anew is another.
// `test.ping` is sent once, even to an inactive webhook, and says nothing of it. What an earlier address answered of
// itself (410, Retry-After) does not count for the present one.
const deliveriesSql = `
  with tried as (
    select *, (request_headers <> '')::int as counts
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::text[],
      $8::timestamptz[], $9::float8[], $10::bool[], $11::int[], $12::bool[]) as tried (delivery_id, job_id, status_code,
      response_time_ms, request_headers, response_body, error, not_before, spread, is_gone, version, is_truncated)
  ), known as (
    select t.*, d.event like 'test.%' as is_test, d.attempt + t.counts - d.attempts_before as tries,
      w.is_active and w.deleted_at is null as is_wanted, coalesce(w.version = t.version, false) as is_present
    from tried t join webhook_deliveries d on d.id = t.delivery_id and d.job_id = t.job_id
      join webhooks w on w.id = d.webhook_id
  ), judged as (
    select k.*, case
        when error is null then 'success'
        when is_test or is_gone and is_present then 'failed'
        when not is_wanted then 'skipped'
        when tries > ${pauses.length} then 'exhausted'
        else 'failed' end as status,
      (array[${pauses.join(', ')}])[greatest(1, least(tries, ${pauses.length}))] * spread as pause,
      is_test or is_gone and is_present as is_last
    from known k
  )
  update webhook_deliveries d set job_id = null, attempt = d.attempt + j.counts, status = j.status,
    status_code = j.status_code, response_time_ms = j.response_time_ms,
    request_headers = nullif(j.request_headers, '')::json, response_body = j.response_body,
    response_truncated = j.is_truncated, attempts = ${attemptsSql}, error = j.error,
    next_attempt_at = case when j.status = 'failed' and not j.is_last
      then greatest(clock_timestamp() + make_interval(secs => j.pause), case when j.is_present then j.not_before end)
    end,
    finished_at = case when j.status <> 'failed' or j.is_last then clock_timestamp() end
  from judged j where d.id = j.delivery_id and d.job_id = j.job_id
  returning d.id, j.status, j.is_present and not j.is_test and j.status <> 'skipped' as is_reporting`;

interface RecordedRow {
  readonly id: string;
  readonly status: Recorded['status'];
  /** Whether the attempt counts for its webhook as it is now. */
  readonly is_reporting: boolean;
}

const recordDeliveries = (tx: Tx, tries: readonly WebhookAttempt[]): Promise<RecordedRow[]> =>
  tx.query<RecordedRow>(
    deliveriesSql,
    [
      tries.map((each) => each.deliveryId),
      tries.map((each) => each.jobId),
      tries.map((each) => each.statusCode),
      tries.map((each) => Math.round(each.responseTimeMs)),
      tries.map((each) => each.requestHeaders),
      textArray(tries.map((each) => each.responseBody)),
      tries.map((each) => each.error),
      tries.map((each) => each.notBefore),
      tries.map(() => spread()),
      tries.map((each) => each.isGone || each.isFinal === true),
      tries.map((each) => each.version),
      tries.map((each) => each.responseTruncated ?? false),
    ],
    'record-tries',
  );

/** The attempts of one webhook in this batch. */
interface ThrottleUpdate {
  failures: number;
  /** Failures, those that held a slot for long twice. */
  weight: number;
  /** Whether the last attempt was quick. */
  isQuick: boolean;
  isAlive: boolean;
  notBefore: Date | null;
}

const later = (a: Date | null, b: Date | null): Date | null =>
  a === null || b === null ? (a ?? b) : new Date(Math.max(a.getTime(), b.getTime()));

const newsOf = (tries: readonly WebhookAttempt[]): Map<string, ThrottleUpdate> => {
  const news = new Map<string, ThrottleUpdate>();
  for (const { webhookId, error: fault, isFinal = false, notBefore, responseTimeMs } of tries) {
    const known = news.get(webhookId) ?? { failures: 0, weight: 0, isAlive: false, notBefore: null };
    const error = isFinal ? null : fault;
    const failures = error === null ? 0 : 1;
    news.set(webhookId, {
      failures: known.failures + failures,
      weight: known.weight + (responseTimeMs > quickMs ? 2 * failures : failures),
      isQuick: error === null && responseTimeMs <= quickMs,
      isAlive: known.isAlive || error === null,
      notBefore: later(known.notBefore, notBefore),
    });
  }
  return news;
};

// A healthy throttle is not changed by a success: nothing is written and nobody waits for its lock. Attempts that were
// under way when the breaker opened do not make its pause longer; only the one that was made after the pause does.
const newsSql = `select * from unnest($1::uuid[], $2::int[], $3::bool[], $4::timestamptz[], $5::int[], $6::bool[])
  as news (webhook_id, failed, is_alive, not_before, weight, is_quick)`;

const toNoteSql = `from webhook_throttles l join news n on n.webhook_id = l.webhook_id
  where (not n.is_alive or n.not_before is not null or l.failures > 0 or l.closed_until is not null
    or l.is_quick <> n.is_quick)`;

const throttlesSql = `
  with news as (${newsSql}), locked as materialized (
    select l.* ${toNoteSql} order by l.webhook_id for update of l
  ), counted as (
    select n.*, case
        when n.is_alive then 0
        when l.failures < ${breakAfter} then least(${breakAfter}, l.failures + n.weight)
        when greatest(l.closed_until, l.retry_after) > now() then l.failures
        else l.failures + 1 end as failures, l.failures as failures_before, l.closed_until,
      coalesce(l.failed_at > clock_timestamp() - interval '${forgottenDays} days', false) as goes_on
    from news n join locked l on l.webhook_id = n.webhook_id
  )
  update webhook_throttles l set failures = c.failures, is_quick = c.is_quick, next_at = least(l.next_at, now()),
    failing_since = case when not c.is_alive
      then coalesce(case when c.goes_on then l.failing_since end, clock_timestamp()) end,
    failed_tries = case when c.is_alive then 0 when c.goes_on then l.failed_tries + c.failed else c.failed end,
    failed_at = case when not c.is_alive then clock_timestamp() end,
    retry_after = greatest(l.retry_after, c.not_before),
    closed_until = case
      when c.is_alive then null
      when c.failures >= ${breakAfter} and c.failures > c.failures_before then clock_timestamp()
        + make_interval(secs => least(${maxPauseSeconds},
          ${minPauseSeconds} * power(2, least(c.failures - ${breakAfter}, 20))))
      else c.closed_until end
  from counted c where l.webhook_id = c.webhook_id
  returning l.webhook_id, l.failed_tries >= ${disableAfterTries}
    and l.failing_since < clock_timestamp() - interval '${disableAfterDays} days' as is_failing_for_long`;

const heldSql = `
  with news as (${newsSql}), locked as materialized (
    select l.webhook_id ${toNoteSql} order by l.webhook_id for update of l skip locked
  )
  select webhook_id, false as is_locked_elsewhere from locked
  union all
  select l.webhook_id, true ${toNoteSql} and l.webhook_id not in (select webhook_id from locked)`;

const asArrays = (news: ReadonlyMap<string, ThrottleUpdate>): unknown[] => {
  const all = [...news.values()];
  return [
    [...news.keys()],
    all.map((each) => each.failures),
    all.map((each) => each.isAlive),
    all.map((each) => each.notBefore),
    all.map((each) => each.weight),
    all.map((each) => each.isQuick),
  ];
};

/** Locks the throttles that these attempts change. @returns those, and the ones that another transaction holds */
const lockToNote = async (tx: Tx, tries: readonly WebhookAttempt[]) => {
  const rows = await tx.query<{ webhook_id: string; is_locked_elsewhere: boolean }>(
    heldSql,
    asArrays(newsOf(tries)),
    'held-throttles',
  );
  const { held = [], own = [] } = Object.groupBy(rows, (row) => (row.is_locked_elsewhere ? 'held' : 'own'));
  return {
    locked: new Set(own.map((row) => row.webhook_id)),
    lockedElsewhere: new Set(held.map((row) => row.webhook_id)),
  };
};

const updateThrottles = async (tx: Tx, news: ReadonlyMap<string, ThrottleUpdate>): Promise<string[]> => {
  if (news.size === 0) return [];
  const rows = await tx.query<{ webhook_id: string; is_failing_for_long: boolean | null }>(
    throttlesSql,
    asArrays(news),
    'note-throttles',
  );
  return rows.filter((row) => row.is_failing_for_long === true).map((row) => row.webhook_id);
};

const webhooksToDisable = (tries: readonly WebhookAttempt[], failing: ReadonlySet<string>): WebhookToDisable[] => {
  const found = new Map<string, WebhookToDisable>();
  for (const { webhookId, version, isGone } of tries) {
    if (version === null || found.get(webhookId)?.reason === 'gone') continue;
    if (isGone) found.set(webhookId, { webhookId, version, reason: 'gone' });
    else if (failing.has(webhookId)) found.set(webhookId, { webhookId, version, reason: 'failing' });
  }
  return [...found.values()];
};

/**
 * Records attempts: the outcome of each delivery, the time of its retry, and the effect on its webhook. Throttles are
 * locked before deliveries, as everywhere. Attempts that no longer count are left out of the answer.
 * @returns `lockedElsewhere`: webhooks whose throttles somebody else holds; nothing of their tries is recorded yet
 */
export const recordTries = async (
  tx: Tx,
  tries: readonly WebhookAttempt[],
): Promise<{
  readonly recorded: readonly Recorded[];
  readonly toDisable: readonly WebhookToDisable[];
  readonly lockedElsewhere: ReadonlySet<string>;
}> => {
  const { locked, lockedElsewhere } = await lockToNote(tx, tries);
  const free = tries.filter((each) => !lockedElsewhere.has(each.webhookId));
  const rows = await recordDeliveries(tx, free);
  const reporting = new Set(rows.filter((row) => row.is_reporting).map((row) => row.id));
  const reported = free.filter((each) => reporting.has(each.deliveryId));
  // Mostly each try counts, and its throttle is well: then what was found at first is known.
  const noted = reported.length < free.length ? reported : reported.filter((each) => locked.has(each.webhookId));
  const failing = new Set(await updateThrottles(tx, newsOf(noted)));
  return {
    recorded: rows.map(({ id, status }) => ({ deliveryId: id, status })),
    toDisable: webhooksToDisable(reported, failing),
    lockedElsewhere,
  };
};

/** Notifies the admins of a project, in the transaction of the reported change. */
export type Notify = (tx: Tx, notice: Notice) => Promise<void>;

const reasons = {
  gone: 'The receiver answered 410 (Gone).',
  failing: `Nothing but failures for ${disableAfterDays} days.`,
} as const satisfies Record<WebhookToDisable['reason'], string>;

interface Disabled {
  readonly project_id: string;
  readonly project: string;
  readonly name: string | null;
  readonly url: string | null;
  readonly kind: string;
  readonly reason: string;
}

const calledOf = ({ kind, name, url }: Disabled): string =>
  kind === 'function'
    ? 'a trigger of a function'
    : kind === 'http'
      ? quoted(name ?? url ?? 'a webhook')
      : `the ${kind} integration`;

/** A notice names so many; the project's list has all of them. */
const maxNamed = 10;

const noticeOf = (projectId: string, disabled: readonly Disabled[]): Notice => {
  const named = disabled.slice(0, maxNamed).map((row) => `${calledOf(row)}: ${row.reason}`);
  const more = disabled.length - named.length;
  return {
    projectId,
    subject: 'Webhooks were turned off',
    paragraphs: [
      `Deliveries of the project ${quoted(disabled[0]?.project ?? '')} have stopped to:`,
      [...named, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'),
      'What happens from now on is listed as skipped. Turn a webhook on again when its receiver works, and replay what it missed.',
      'Others that are turned off within an hour are not mailed: the list of webhooks says which are.',
    ],
  };
};

/**
 * Makes webhooks inactive whose receivers are gone or failed for too long, unless they have got another address or
 * secret since, and notifies their admins. The transaction acts as the system. The scheduler skips their waiting
 * deliveries.
 */
export const disableWebhooks = async (
  tx: Tx,
  toDisable: readonly WebhookToDisable[],
  notify: Notify,
): Promise<void> => {
  if (toDisable.length === 0) return;
  const rows = await tx.query<Disabled>(
    `update webhooks w set is_active = false, disabled_reason = given.reason, updated_at = now()
     from unnest($1::uuid[], $2::text[], $3::int[]) as given (id, reason, version), projects p
     where w.id = given.id and w.version = given.version and w.is_active and w.deleted_at is null
       and p.id = w.project_id
     returning w.project_id, p.name as project, w.name, w.url, w.kind, given.reason`,
    [
      toDisable.map(({ webhookId }) => webhookId),
      toDisable.map(({ reason }) => reasons[reason]),
      toDisable.map(({ version }) => version),
    ],
  );
  for (const [projectId, disabled] of Map.groupBy(rows, (row) => row.project_id)) {
    await notify(tx, noticeOf(projectId, disabled));
  }
};

/** An attempt that a delivery waits for. */
type StuckTry = TryRef & Pick<WebhookAttempt, 'webhookId'>;

/** The attempt that a job was to make; undefined when its delivery does not wait for it. */
export const findTry = (db: Queryable, jobId: string): Promise<StuckTry | undefined> =>
  maybeOne(
    db.query<StuckTry & Record<string, string>>(
      `select d.id as "deliveryId", j.id as "jobId", d.webhook_id as "webhookId"
       from jobs j join webhook_deliveries d on d.id = (j.data::json ->> 'delivery_id')::uuid and d.job_id = j.id
       where j.id = $1`,
      [jobId],
    ),
  );

/**
 * Attempts whose job has ended or is gone without a record, since it was cancelled or waited too long. Their deliveries
 * would wait for ever.
 */
export const stuckTries = (db: Queryable, max: number): Promise<StuckTry[]> =>
  db.query<StuckTry & Record<string, string>>(
    `select d.id as "deliveryId", d.job_id as "jobId", d.webhook_id as "webhookId"
     from webhook_deliveries d left join jobs j on j.id = d.job_id
     where d.job_id is not null and (j.id is null or j.finished_at < now() - interval '10 seconds') limit $1`,
    [max],
  );

/** Returns the jobs that were started, so that something may have been sent; a deleted job may have been, too. */
export const startedJobs = async (db: Queryable, jobIds: readonly string[]): Promise<ReadonlySet<string>> => {
  if (jobIds.length === 0) return new Set();
  const waited = await db.query<{ id: string }>('select id from jobs where id = any ($1::uuid[]) and attempt = 0', [
    jobIds,
  ]);
  const untouched = new Set(waited.map(({ id }) => id));
  return new Set(jobIds.filter((id) => !untouched.has(id)));
};
