import { type Queryable, one } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';

/** An event that runs may wait for. */
export interface AwaitedEvent {
  readonly id: string;
  /** As it is stored: `table.users.INSERT` for writes to tables. */
  readonly event: string;
  /** JSON text, as it is stored; null: too large for filters, which it passes. */
  readonly data: string | null;
  /** JSON text: the result of the step. */
  readonly body: string;
}

/** So many steps are compared by one statement. */
const batchSize = 1000;

// A step takes the first event that fits. The rows of jobs are locked before those of their steps, as by whoever records
// steps or ends a job. A run that is just about to sleep compares the number of its wakes (see goToSleep).
const resumeSql = `
  with given as materialized (
    select id, name, nth, body, event_json(data) as data
    from unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) with ordinality as g (id, name, data, body, nth)
  ), compared as materialized (
    select job_id, name, case when $7 then filter_table else filter_other end as filter from job_steps
    where project_id = $1 and event = $6 and status = 'waiting' and (job_id, name) > ($8::uuid, $9::text)
    order by job_id, name limit ${batchSize}
  ), met as materialized (
    select job_id, name, found.body from compared cross join lateral (
      select body from given where filter is null or data is null
        or coalesce(jsonb_path_match(data, filter, jsonb_build_object('event', given.name), true), false)
      order by nth limit 1) as found
  ), locked as materialized (
    select id from jobs where id in (select job_id from met) and finished_at is null order by id for no key update
  ), over as (
    update job_steps s set status = 'succeeded', finished_at = clock_timestamp(), result = met.body
    from met where s.job_id = met.job_id and s.name = met.name and s.status = 'waiting'
      and s.job_id in (select id from locked)
    returning s.job_id, octet_length(s.result) as bytes
  ), woken as (
    update jobs j set step_wakes = step_wakes + 1, step_bytes = step_bytes + o.bytes,
      next_run_at = case when j.status = 'waiting' then now() else j.next_run_at end
    from (select job_id, sum(bytes)::int as bytes from over group by job_id) as o where j.id = o.job_id
  )
  select (select count(*)::int from over) as resumed, (select count(*)::int from compared) as compared,
    (select job_id::text from compared order by job_id desc, name desc limit 1) as job_id,
    (select name from compared order by job_id desc, name desc limit 1) as name`;

interface Batch {
  readonly resumed: number;
  readonly compared: number;
  readonly job_id: string | null;
  readonly name: string | null;
}

const beginning = { job_id: '00000000-0000-0000-0000-000000000000', name: '' };

interface Awaited {
  readonly projectId: string;
  /** The pattern that steps wait for, and the events that fit it. */
  readonly pattern: string;
  readonly events: readonly AwaitedEvent[];
}

/** The result of a pass over waiting steps. */
interface Resumed {
  /** Steps that got an event. */
  readonly resumed: number;
  /** How often a step was compared with an event. */
  readonly compared: number;
}

const resumeThose = async (db: Queryable, { projectId, pattern, events }: Awaited): Promise<Resumed> => {
  let [resumed, compared] = [0, 0];
  for (let after: Pick<Batch, 'job_id' | 'name'> = beginning; ;) {
    const batch: Batch = await one(
      db.query<Batch & Record<string, unknown>>(
        resumeSql,
        [
          projectId,
          events.map(({ id }) => id),
          events.map(({ event }) => event),
          textArray(events.map(({ data }) => data)),
          textArray(events.map(({ body }) => body)),
          pattern,
          events[0]?.event.startsWith('table.') === true,
          after.job_id,
          after.name,
        ],
        'resume-waiting-steps',
      ),
    );
    resumed += batch.resumed;
    compared += batch.compared * events.length;
    if (batch.compared < batchSize) return { resumed, compared };
    after = batch;
  }
};

/** The patterns that the events fit, and that any step of the project waits for. */
const patternsOf = async (db: Queryable, projectId: string, names: readonly string[]) => {
  const rows = await db.query<{ name: string; pattern: string }>(
    `select name, pattern from unnest($2::text[]) as name cross join lateral unnest(event_patterns(name)) as pattern
     where exists (select from job_steps s where s.project_id = $1 and s.event = pattern and s.status = 'waiting')`,
    [projectId, names],
    'awaited-patterns',
  );
  return Map.groupBy(rows, ({ name, pattern }) => `${name.startsWith('table.')} ${pattern}`);
};

/**
 * Gives events of a project to the steps of its runs that wait for them (`step.waitForEvent`), in batches of 1,000
 * steps; runs that sleep are due from then on. Each step takes the first of the events that its filter takes. To be
 * called in the transaction that passes on the events.
 * @returns how many steps got one, and how much was compared for that
 */
export const resumeWaiting = async (
  db: Queryable,
  projectId: string,
  events: readonly AwaitedEvent[],
): Promise<Resumed> => {
  const names = [...new Set(events.map(({ event }) => event))];
  let [resumed, compared] = [0, 0];
  for (const rows of (await patternsOf(db, projectId, names)).values()) {
    const fitting = new Set(rows.map(({ name }) => name));
    const pattern = rows[0]?.pattern ?? '';
    const done = await resumeThose(db, {
      projectId,
      pattern,
      events: events.filter(({ event }) => fitting.has(event)),
    });
    resumed += done.resumed;
    compared += done.compared;
  }
  return { resumed, compared };
};
