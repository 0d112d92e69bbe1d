import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, one } from '#lib/control-db.ts';

/**
 * Bytes, before compression, of a project's payloads, results, logs, events, receivers' answers and replaced versions.
 */
export const storedBytesOf = async (db: Queryable, projectId: string): Promise<number> => {
  const { bytes } = await one(
    db.query<{ bytes: number }>(
      `select (coalesce((select bytes from stored_bytes where project_id = $1), 0)
         + coalesce((select sum(bytes) from stored_changes where project_id = $1), 0))::float8 as bytes`,
      [projectId],
    ),
  );
  return bytes;
};

/** Adds up what changed, some rows at a time, for all projects in one order; answers how many rows there were. */
export const foldStoredChanges = async (db: Queryable, max: number): Promise<number> => {
  const { folded } = await one(
    db.query<{ folded: number }>(
      `with gone as (
         delete from stored_changes where id in (
           select id from stored_changes order by id limit $1 for update skip locked) returning project_id, bytes
       ), summed as (
         insert into stored_bytes as s (project_id, bytes)
         select g.project_id, sum(g.bytes) from gone g join projects p on p.id = g.project_id
         group by g.project_id order by g.project_id
         on conflict (project_id) do update set bytes = s.bytes + excluded.bytes
       )
       select count(*)::int as folded from gone`,
      [max],
    ),
  );
  return folded;
};

interface Quota {
  readonly project_id: string;
  readonly quota: number;
}

const projectsInPage = 100;
/**
 * Nothing can be deleted of a project whose events are all still to be delivered: it must not keep the others waiting.
 */
const maxPages = 10;

const projectsOver = (db: Queryable, quotas: Readonly<Record<Plan, number>>, offset: number): Promise<Quota[]> =>
  db.query<Quota>(
    `select s.project_id, q.bytes as quota
     from stored_bytes s join projects p on p.id = s.project_id
       join unnest($1::text[], $2::float8[]) as q (plan, bytes) on q.plan = p.plan
     where s.bytes > q.bytes order by s.bytes - q.bytes desc, s.project_id limit ${projectsInPage} offset $3`,
    [Object.keys(quotas), Object.values(quotas), offset],
  );

/**
 * By how much the project $1 is over $2. Part of the statement that deletes: in one snapshot the sum and the rows
 * agree, so that two workers that sweep at once never delete more than what is too much.
 */
const excess = `(
  select coalesce((select bytes from stored_bytes where project_id = $1), 0)
    + coalesce((select sum(bytes) from stored_changes where project_id = $1), 0) - $2::float8)`;

// The oldest $3 of each kind, by the age in their ids. The answers of receivers are as old as their event. An event can
// be deleted once none of its deliveries waits or is in flight.
const candidates = `
  runs as (
    select i.id, octet_length(i.data) + coalesce(octet_length(i.logs), 0) + coalesce(octet_length(i.log_tail), 0)
      + coalesce(octet_length(i.error), 0) as bytes
    from functions f cross join lateral (
      select id, data, logs, log_tail, error from invocations where function_id = f.id order by id limit $3) i
    where f.project_id = $1 order by i.id limit $3
  ), ended as (
    select id, ended_job_bytes(finished_at, data, result)
      + case when kept_step_bytes >= 2000 then kept_step_bytes else 0 end as bytes
    from jobs where id in (
      (select id from jobs where project_id = $1 and ended_job_bytes(finished_at, data, result) > 0 order by id limit $3)
      union
      (select id from jobs where project_id = $1 and kept_step_bytes >= 2000 order by id limit $3))
    order by id limit $3
  ), answers as (
    select event_id as id, answer_bytes(response_body) as bytes from webhook_deliveries
    where project_id = $1 and answer_bytes(response_body) > 0 order by event_id limit $3
  ), events as (
    select e.id, event_bytes(e.data) as bytes from outbox_events e
    where e.project_id = $1 and e.fanned_at is not null and event_bytes(e.data) > 0
      and not exists (select from webhook_deliveries d
        where d.event_id = e.id and (d.next_attempt_at is not null or d.job_id is not null))
    order by e.id limit $3
  ), oldest as (
    select id, sum(bytes) as bytes
    from (table runs union all table ended union all table answers union all table events) all_kinds
    group by id order by id limit $3
  ), chosen as materialized (
    select id from (select id, sum(bytes) over (order by id) - bytes as before from oldest) counted
    where before < ${excess}
  )`;

// An event goes with its deliveries, since they could not be sent again without it. Where it stays, or is small, the
// answers go and the deliveries stay. A delivery that somebody else holds, or asked for again meanwhile, keeps its
// event.
const webhookDeletions = `
  held as materialized (
    select id, event_id, next_attempt_at is null and job_id is null as is_ended from webhook_deliveries
    where event_id in (select id from chosen) for update skip locked
  ), events_gone as (
    delete from outbox_events e where e.id in (select id from chosen) and e.id in (select id from events)
      and not exists (select from webhook_deliveries d
        where d.event_id = e.id and d.id not in (select id from held where is_ended))
    returning id
  ), deliveries_gone as (
    delete from webhook_deliveries where id in (
      select id from held where event_id in (select id from events_gone))
  ), answers_gone as (
    update webhook_deliveries set response_body = null, response_truncated = true
    where id in (select id from held where event_id not in (select id from events_gone))
      and answer_bytes(response_body) > 0
    returning event_id as id
  )`;

/**
 * The oldest runs, ended jobs of any type, events and receivers' answers, until no more is stored than the quota. A
 * retried job is left alone.
 */
const deleteOldestEntries = async (
  db: Queryable,
  { project_id: projectId, quota }: Quota,
  max: number,
): Promise<number> => {
  const gone = await db.query(
    `with ${candidates}, ${webhookDeletions}, jobs_gone as (
       delete from jobs where id in (select id from chosen) and finished_at is not null returning id
     ), runs_gone as (
       delete from invocations where id in (select id from chosen) returning id
     )
     table jobs_gone union table runs_gone union table events_gone union table answers_gone`,
    [projectId, quota, max],
  );
  return gone.length;
};

const deleteOldestVersions = async (
  db: Queryable,
  { project_id: projectId, quota }: Quota,
  max: number,
): Promise<number> => {
  const gone = await db.query(
    `with oldest as (
       select function_id, version, sum(bytes) over (order by created_at, function_id, version) - bytes as before
       from (select v.*, octet_length(v.code) + octet_length(v.compiled) + coalesce(octet_length(v.files), 0) as bytes
             from function_versions v join functions f on f.id = v.function_id
             where f.project_id = $1 order by v.created_at, v.function_id, v.version limit $3) first_ones
     )
     delete from function_versions v using oldest o
     where v.function_id = o.function_id and v.version = o.version and o.before < ${excess} returning v.version`,
    [projectId, quota, max],
  );
  return gone.length;
};

/**
 * Deletes the oldest of what projects store beyond their quota: runs, ended jobs, delivered events and receivers'
 * answers first, then replaced versions. A job that waits or runs stays, as does an event that is to be delivered.
 * Returns how many were deleted; changes are added up before projects are checked again.
 */
export const deleteBeyondQuota = async (
  db: Queryable,
  quotas: Readonly<Record<Plan, number>>,
  max: number,
): Promise<number> => {
  let gone = 0;
  let isMore = true;
  for (let page = 0; page < maxPages && isMore && gone < max; page += 1) {
    const projects = await projectsOver(db, quotas, page * projectsInPage);
    for (const project of projects) {
      const entries = await deleteOldestEntries(db, project, max);
      gone += entries > 0 ? entries : await deleteOldestVersions(db, project, max);
    }
    isMore = projects.length === projectsInPage;
  }
  if (gone > 0) for (let folded = max; folded === max;) folded = await foldStoredChanges(db, max);
  return gone;
};
