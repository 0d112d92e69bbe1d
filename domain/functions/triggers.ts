import { withinPatterns } from '#domain/webhooks/subscriptions.ts';
import { filterColumns } from '#domain/webhooks/store.ts';
import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { getFunctionVersion } from './functions.ts';

/*
 * Triggers: events that run a function. Each is a row of `webhooks` of the kind `function`, so that patterns, filters,
 * fan-out, retries and rates are those of webhooks; what is delivered to it becomes a job
 * (workers/processors/function-trigger.ts).
 */

export interface FunctionTrigger {
  readonly id: string;
  readonly function_id: string;
  readonly event: string;
  readonly filter: string | null;
  /** For its jobs; null: as the function has it. */
  readonly retry: RetryPolicy | null;
  /** The platform turns a trigger off whose events could not be enqueued for days. */
  readonly is_active: boolean;
  /** Why the last event that could not be enqueued was not; null: all were. */
  readonly last_error: string | null;
  readonly created_at: Date;
}

export interface TriggerFields {
  readonly event: string;
  readonly filter: string | null;
  readonly retry: RetryPolicy | null;
}

/** Each event is a job for each of them that answers to it. */
const maxTriggers: Readonly<Record<Plan, number>> = { free: 50, pro: 500, enterprise: 5000 };

/** Events a second: a job is cheap, so that it is the most that a webhook may have. */
const ratePerSecond = 1000;

// One entry of the index for each status: a trigger may have a million failed deliveries.
const lastOf = (status: string): string =>
  `(select id, error from webhook_deliveries where webhook_id = w.id and status = '${status}' order by id desc limit 1)`;

const columns = `w.id, w.function_id, w.events[1] as event, w.filter, w.retry, w.is_active, w.created_at,
  (select d.error from (${lastOf('failed')} union all ${lastOf('exhausted')}) as d
   order by d.id desc limit 1) as last_error`;

const present = `webhooks w where w.project_id = $1 and w.function_id = $2 and w.kind = 'function' and w.deleted_at is null`;

/** @throws {ServiceError} `not_found`: there is no such function */
export const listTriggers = async (
  db: Queryable,
  { projectId, functionId }: { readonly projectId: string; readonly functionId: string },
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly triggers: readonly FunctionTrigger[]; readonly total: number }> => {
  await getFunctionVersion(db, projectId, { id: functionId });
  const triggers = await db.query<FunctionTrigger & Record<string, unknown>>(
    `select ${columns} from ${present} order by w.created_at, w.id limit $3 offset $4`,
    [projectId, functionId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from ${present}`, [projectId, functionId]),
  );
  return { triggers, total };
};

/** Until the transaction ends nobody else adds one to the project. @throws {ServiceError} `plan_limit_exceeded` */
const requireRoom = async (db: Queryable, projectId: string): Promise<void> => {
  const { plan } = await one(
    db.query<{ plan: Plan }>('select plan from projects where id = $1 for no key update', [projectId]),
  );
  const { total } = await one(
    db.query<{ total: number }>(
      `select count(*) as total from webhooks where project_id = $1 and kind = 'function' and deleted_at is null`,
      [projectId],
    ),
  );
  if (total < maxTriggers[plan]) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `A project of the plan ${plan} has at most ${maxTriggers[plan]} triggers.`,
  );
};

/**
 * Events from now on run the function. To be followed by `subscribeAfter`, since writes to tables must leave events.
 * @throws {ServiceError} `not_found`, `plan_limit_exceeded`, `invalid_filter`
 */
export const createTrigger = async (
  db: Queryable,
  { projectId, functionId }: { readonly projectId: string; readonly functionId: string },
  { event, filter, retry }: TriggerFields,
): Promise<FunctionTrigger> => {
  await getFunctionVersion(db, projectId, { id: functionId });
  await requireRoom(db, projectId);
  const id = newId();
  await withinPatterns(db, { projectId, events: [event] }, async () => {
    await db.query(
      `insert into webhooks (id, project_id, kind, function_id, events, rate_per_second, retry, filter, filter_table,
         filter_other)
       values ($1, $2, 'function', $3, $4, $5, $6, $7, $8::text::jsonpath, $9::text::jsonpath)`,
      [
        id,
        projectId,
        functionId,
        [event],
        ratePerSecond,
        retry === null ? null : JSON.stringify(retry),
        ...filterColumns(filter),
      ],
    );
  });
  return one(
    db.query<FunctionTrigger & Record<string, unknown>>(`select ${columns} from ${present} and w.id = $3`, [
      projectId,
      functionId,
      id,
    ]),
  );
};

/** Events that wait for it run nothing any more; jobs that exist do. @throws {ServiceError} `not_found` */
export const removeTrigger = async (
  db: Queryable,
  { projectId, functionId, id }: { readonly projectId: string; readonly functionId: string; readonly id: string },
): Promise<void> => {
  const gone = await db.query(
    `update webhooks w set deleted_at = now(), updated_at = now() where w.id in (
       select w.id from ${present} and w.id = $3) returning w.id`,
    [projectId, functionId, id],
  );
  if (gone.length === 0) throw notFound('trigger');
};
