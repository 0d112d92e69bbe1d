import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, one } from '#lib/control-db.ts';

/** What payloads, results, logs and replaced versions of a project take, in bytes before compression. */
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
export const foldStoredChanges = async (db: Queryable, most: number): Promise<number> => {
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
      [most],
    ),
  );
  return folded;
};

interface Quota {
  readonly project_id: string;
  readonly quota: number;
}

const projectsOver = (db: Queryable, quotas: Readonly<Record<Plan, number>>): Promise<Quota[]> =>
  db.query<Quota>(
    `select s.project_id, q.bytes as quota
     from stored_bytes s join projects p on p.id = s.project_id
       join unnest($1::text[], $2::float8[]) as q (plan, bytes) on q.plan = p.plan
     where s.bytes > q.bytes order by s.bytes - q.bytes desc limit 100`,
    [Object.keys(quotas), Object.values(quotas)],
  );

/**
 * By how much the project $1 is over $2. Part of the statement that deletes: in one snapshot the sum and the rows agree, so
 * that two workers that sweep at once never delete more than what is too much.
 */
const excess = `(
  select coalesce((select bytes from stored_bytes where project_id = $1), 0)
    + coalesce((select sum(bytes) from stored_changes where project_id = $1), 0) - $2::float8)`;

/** The oldest runs and ended jobs of any type, until no more is stored than the quota. A retried job is left alone. */
const deleteOldestRuns = async (
  db: Queryable,
  { project_id: projectId, quota }: Quota,
  most: number,
): Promise<number> => {
  const gone = await db.query(
    `with runs as (
       select i.id, octet_length(i.data) + coalesce(octet_length(i.logs), 0) + coalesce(octet_length(i.log_tail), 0)
         + coalesce(octet_length(i.error), 0) as bytes
       from functions f cross join lateral (
         select id, data, logs, log_tail, error from invocations where function_id = f.id order by id limit $3) i
       where f.project_id = $1 order by i.id limit $3
     ), ended as (
       select id, ended_job_bytes(finished_at, data, result) as bytes from jobs
       where project_id = $1 and ended_job_bytes(finished_at, data, result) > 0 order by id limit $3
     ), oldest as (
       select id, sum(bytes) as bytes from (select * from runs union all select * from ended) both_kinds
       group by id order by id limit $3
     ), chosen as (
       select id from (select id, sum(bytes) over (order by id) - bytes as before from oldest) counted
       where before < ${excess}
     ), jobs_gone as (
       delete from jobs where id in (select id from chosen) and finished_at is not null returning id
     ), runs_gone as (
       delete from invocations where id in (select id from chosen) returning id
     )
     select id from jobs_gone union select id from runs_gone`,
    [projectId, quota, most],
  );
  return gone.length;
};

const deleteOldestVersions = async (
  db: Queryable,
  { project_id: projectId, quota }: Quota,
  most: number,
): Promise<number> => {
  const gone = await db.query(
    `with oldest as (
       select function_id, version, sum(octet_length(code) + octet_length(compiled))
           over (order by created_at, function_id, version) - octet_length(code) - octet_length(compiled) as before
       from (select v.* from function_versions v join functions f on f.id = v.function_id
             where f.project_id = $1 order by v.created_at, v.function_id, v.version limit $3) first_ones
     )
     delete from function_versions v using oldest o
     where v.function_id = o.function_id and v.version = o.version and o.before < ${excess} returning v.version`,
    [projectId, quota, most],
  );
  return gone.length;
};

/**
 * Deletes the oldest of what projects store beyond their quota: runs and ended jobs first, then replaced versions. A job that
 * waits or runs stays. Answers how many went; what changed is added up before projects are looked at again.
 */
export const deleteBeyondQuota = async (
  db: Queryable,
  quotas: Readonly<Record<Plan, number>>,
  most: number,
): Promise<number> => {
  let gone = 0;
  for (const project of await projectsOver(db, quotas)) {
    const runs = await deleteOldestRuns(db, project, most);
    gone += runs > 0 ? runs : await deleteOldestVersions(db, project, most);
  }
  if (gone > 0) for (let folded = most; folded === most;) folded = await foldStoredChanges(db, most);
  return gone;
};
