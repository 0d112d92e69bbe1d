import { randomBytes } from 'node:crypto';
import { systemActor } from '#domain/audit/actor.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';

/** Projects and jobs written straight into the control database: thousands of them in a second. */

export interface SeededProject {
  readonly id: string;
  readonly ref: string;
  readonly name: string;
}

/** Projects without a database of their own. */
export const seedProjects = (db: ControlDb, count: number): Promise<SeededProject[]> =>
  db.transaction(async (tx) => {
    const orgId = newOrgId();
    await tx.query(`insert into organizations (id, name) values ($1, 'Seeded')`, [orgId]);
    const projects = Array.from({ length: count }, (_, i) => ({
      id: newId(),
      ref: newProjectRef(),
      name: `Shop ${i + 1}`,
    }));
    const plans = projects.map((_, i) => ['free', 'pro', 'enterprise'][i % 3]);
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       select id, ref, $1, (select id from database_servers limit 1), name, 's' || n, plan, 'active', 'none_' || ref, $2
       from unnest($3::uuid[], $4::text[], $5::text[], $6::text[]) with ordinality as new (id, ref, name, plan, n)`,
      [
        orgId,
        randomBytes(32),
        projects.map(({ id }) => id),
        projects.map(({ ref }) => ref),
        projects.map(({ name }) => name),
        plans,
      ],
    );
    return projects;
  }, systemActor);

export interface SeededJob {
  readonly projectId: string;
  readonly type?: string;
  readonly status: string;
  /** Left out: another one for each job. */
  readonly functionId?: string;
  readonly errorCode?: string;
  /** How long ago it was accepted. */
  readonly secondsAgo?: number;
  readonly waitMs?: number;
  readonly runMs?: number;
}

const idAt = (at: number): string => {
  const hex = at.toString(16).padStart(12, '0') + newId().replaceAll('-', '').slice(12);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
};

const ended = new Set(['succeeded', 'failed', 'cancelled', 'expired', 'dead']);

const rowOf = (job: SeededJob) => {
  const created = Math.floor(Date.now() - (job.secondsAgo ?? 1) * 1000);
  const started = created + (job.waitMs ?? 20);
  return {
    id: idAt(created),
    project_id: job.projectId,
    type: job.type ?? 'function.invoke',
    status: job.status,
    data: JSON.stringify({
      function_id: job.functionId ?? newId(),
      version: 1,
      trigger: 'api',
      payload: '{"order":17}',
    }),
    result: job.status === 'succeeded' ? '{"status":"success","result":{"ok":true}}' : null,
    error_code: job.errorCode ?? null,
    error_message: job.errorCode === undefined ? null : `It ended with ${job.errorCode} <b>and this is no markup</b>.`,
    attempt: job.status === 'queued' ? 0 : 1,
    max_attempts: 3,
    request_id: `seed-${randomBytes(4).toString('hex')}`,
    created_at: new Date(created),
    queued_at: new Date(created),
    started_at: job.status === 'queued' ? null : new Date(started),
    finished_at: ended.has(job.status) ? new Date(Math.min(Date.now(), started + (job.runMs ?? 80))) : null,
  };
};

/** @returns the ids, in order */
export const seedJobs = async (db: Queryable, jobs: readonly SeededJob[]): Promise<string[]> => {
  const rows = jobs.map(rowOf);
  await db.query(
    `insert into jobs (id, project_id, type, status, data, result, error_code, error_message, attempt, max_attempts,
       request_id, created_at, queued_at, started_at, finished_at)
     select id, project_id, type, status, data, result, error_code, error_message, attempt, max_attempts, request_id,
       created_at, queued_at, started_at, finished_at
     from jsonb_to_recordset($1::jsonb) as new (id uuid, project_id uuid, type text, status text, data text, result text,
       error_code text, error_message text, attempt int, max_attempts int, request_id text, created_at timestamptz,
       queued_at timestamptz, started_at timestamptz, finished_at timestamptz)`,
    [JSON.stringify(rows)],
  );
  return rows.map(({ id }) => id);
};

/** A dead letter as an engine that gave up leaves it. */
export const dead = (projectId: string, more: Partial<SeededJob> = {}): SeededJob => ({
  projectId,
  type: 'project.provision',
  status: 'dead',
  errorCode: 'dependency_unavailable',
  ...more,
});
