import { z } from 'zod';
import { type BulkAction, changeInBulk } from '#domain/jobs/bulk.ts';
import type { JobFilter } from '#domain/jobs/filter.ts';
import { type DeadFilter, type Redriven, deadGroups, redrive } from '#domain/ops/dead-letters.ts';
import { type JobDetail, idsOfNamed, jobDetail, projectOfJob, searchJobs } from '#domain/ops/search.ts';
import type { Queryable } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { Place } from '#queues/gate/types.ts';
import { operator } from '../../access.ts';
import type { BaseCall } from '../../call.ts';
import type { Deps } from '../../deps.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, text } from '../../fields.ts';
import { bulkBody, bulkResult } from '#api/shapes/jobs.ts';
import { errorCode, foundJob, jobType, page, shownJob, status } from '#api/ops/shapes.ts';

const area = 'operators';
const params = z.object({ job_id: id });
const total = { total: z.int(), total_is_exact: z.boolean().describe('False: there are more than `total`.') };

/** A project as people name it. */
const named = text(200, 1).optional().describe('Id, ref, slug or name.');

const deadFilter = page.extend({
  id: id.optional(),
  project_id: id.optional(),
  project: named,
  type: jobType.optional(),
  error_code: errorCode.optional(),
});

/** Which jobs, in words of people: what `GET /ops/api/jobs` finds, the bulk endpoints change. */
const filterShape = {
  id: id.optional(),
  project_id: id.optional(),
  project: named,
  function: text(200, 1).optional().describe('Id, slug or name.'),
  type: jobType.optional(),
  status: status.optional(),
  error_code: errorCode.optional(),
  error: text(200, 1).optional().describe('A part of the error’s message.'),
  request_id: text(64, 1).optional(),
  since: z.iso.datetime({ offset: true }).optional().describe('Accepted then or later.'),
  until: z.iso.datetime({ offset: true }).optional().describe('Accepted before that.'),
};

const filterFields = z.object(filterShape);
type Filter = z.output<typeof filterFields>;

const detail = namedObject('OpsJobDetail', {
  ...foundJob.shape,
  crashes: z.int(),
  cancel_requested_at: instant.nullable(),
  traceparent: z.string().nullable(),
  payload: z.string().describe('JSON text, its first 64 KiB.'),
  payload_length: z.int(),
  result: z.string().nullable().describe('JSON text, its first 64 KiB.'),
  result_length: z.int().nullable(),
  place: z
    .object({
      state: z.enum(['handed over', 'waiting', 'absent']),
      position: z.int().nullable(),
      reason: z.enum(['project_limit', 'organization_limit', 'global_limit', 'paused', 'queue']).nullable(),
    })
    .nullable()
    .describe('Where it stands at the gate. Null when it has ended or Redis does not answer.'),
  attempts: z
    .array(
      z.object({
        attempt: z.int(),
        worker_id: z.string().nullable(),
        started_at: instant.nullable(),
        ended_at: instant,
        error: z.object({ code: z.string(), message: z.string() }),
      }),
    )
    .describe('The failed attempts that another one followed.'),
  logs: z.array(z.object({ at: instant, level: z.string(), message: z.string() })).readonly(),
});

interface JobReader extends Pick<Deps, 'gate'> {
  readonly db: Queryable;
}

/** A transaction has one connection, which takes one statement at a time, and none after one that failed. */
const oneByOne = (db: Queryable): Queryable => {
  let latest: Promise<unknown> = Promise.resolve();
  const next = <T>(readPage: () => Promise<T>): Promise<T> => {
    const answer = latest.then(readPage);
    latest = answer;
    return answer;
  };
  return { query: (sql, values, name) => next(() => db.query(sql, values, name)) };
};

const placeOf = async ({ gate }: Pick<Deps, 'gate'>, job: JobDetail): Promise<Place | null> => {
  if (job.status !== 'queued' && job.status !== 'running') return null;
  try {
    const [place = null] = await gate.places([{ id: job.id, type: job.type, projectId: job.project_id }]);
    return place;
  } catch (error) {
    if (isDependencyFailure(error)) return null;
    throw error;
  }
};

const shownDetail = (job: JobDetail, place: Place | null): z.output<typeof detail> => ({
  ...shownJob(job),
  place,
  attempts: job.attempts.map(({ error_code: code, error_message: message, ...attempt }) => ({
    ...attempt,
    error: { code, message },
  })),
});

const detailOf = async (deps: JobReader, jobId: string): Promise<z.output<typeof detail>> => {
  const job = await jobDetail(deps.db, jobId);
  return shownDetail(job, await placeOf(deps, job));
};

const timeOf = (text: string | undefined): Date | undefined => (text === undefined ? undefined : new Date(text));

const filterOf = async (db: Queryable, filter: Filter): Promise<JobFilter> => {
  const { projectIds, functionIds } = await idsOfNamed(db, filter);
  return {
    ids: listOf(filter.id),
    functionIds,
    projectIds: bothOf(listOf(filter.project_id), projectIds),
    type: filter.type,
    statuses: filter.status === undefined ? undefined : [filter.status],
    errorCode: filter.error_code,
    errorText: filter.error,
    requestId: filter.request_id,
    since: timeOf(filter.since),
    until: timeOf(filter.until),
  };
};

const listOf = (one: string | undefined): readonly string[] | undefined => (one === undefined ? undefined : [one]);

const bothOf = (one: readonly string[] | undefined, other: readonly string[] | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : one.filter((each) => other.includes(each));

const changing = (action: BulkAction, summary: string): Endpoint =>
  endpoint({
    method: 'post',
    path: `/ops/api/jobs/${action}`,
    area,
    summary,
    access: operator,
    transaction: 'none',
    body: bulkBody(action, filterShape),
    response: bulkResult,
    handle: async ({ body: { filter, dry_run: dryRun } }, { deps }) =>
      changeInBulk(deps.db, deps.jobs, { action, filter: await filterOf(deps.db, filter), dryRun }),
  });

const which = {
  ids: z.array(id).min(1).max(200).optional(),
  type: jobType.optional(),
  project_id: id.optional(),
  project: named,
  error_code: errorCode.optional(),
  all: z.literal(true).optional(),
};

/** Redrives in the transaction of the call; once that is committed, the gate is notified of all jobs at once. */
const redriveWithin = async ({ db, deps, afterCommit }: BaseCall, which: DeadFilter): Promise<Redriven> => {
  const tx = oneByOne(db);
  const notifications: (() => Promise<void>)[] = [];
  const within = { db: tx, afterCommit: (notify: () => Promise<void>) => void notifications.push(notify) };
  const done = await redrive(tx, { retry: (projectId, jobId) => deps.jobs.retry(projectId, jobId, within) }, which);
  afterCommit(async () => {
    await Promise.all(notifications.map((notify) => notify()));
  });
  return done;
};

/** Jobs of all projects, and what became of them. */
export const opsJobEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/jobs',
    area,
    summary: 'Jobs of all projects, newest first',
    access: operator,
    query: page.extend(filterShape),
    response: z.object({ jobs: z.array(foundJob), ...total }),
    handle: async ({ query }, { deps }) => {
      const found = await searchJobs(deps.db, await filterOf(deps.db, query), query);
      return { jobs: found.jobs.map(shownJob), total: found.total, total_is_exact: found.totalIsExact };
    },
  }),
  changing('retry', 'Runs the jobs of a filter again that failed, died, expired or were cancelled'),
  changing('cancel', 'Cancels the jobs of a filter that have not ended'),
  endpoint({
    method: 'get',
    path: '/ops/api/jobs/{job_id}',
    area,
    summary: 'A job with its payload, result, attempts and log',
    access: operator,
    params,
    response: detail,
    handle: ({ params: { job_id: jobId } }, { deps }) => detailOf(deps, jobId),
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/jobs/{job_id}/cancel',
    area,
    summary: 'Cancels a job that has not ended',
    access: operator,
    params,
    transaction: 'none',
    response: detail,
    handle: async ({ params: { job_id: jobId } }, { deps }) => {
      await deps.jobs.cancel(await projectOfJob(deps.db, jobId), jobId);
      return detailOf(deps, jobId);
    },
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/jobs/{job_id}/retry',
    area,
    summary: 'Runs a job again that failed, died, expired or was cancelled',
    access: operator,
    params,
    status: 202,
    response: detail,
    handle: async ({ params: { job_id: jobId } }, { db, deps, afterCommit }) => {
      const tx = oneByOne(db);
      await deps.jobs.retry(await projectOfJob(tx, jobId), jobId, { db: tx, afterCommit });
      return detailOf({ gate: deps.gate, db: tx }, jobId);
    },
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/dead',
    area,
    summary: 'Dead letters, newest first, and how many there are of each type and error',
    access: operator,
    query: deadFilter,
    response: z.object({
      jobs: z.array(foundJob),
      ...total,
      groups: z.array(z.object({ type: z.string(), error_code: z.string().nullable(), count: z.int() })),
    }),
    handle: async ({ query }, { db, deps }) => {
      const [found, groups] = await Promise.all([
        searchJobs(deps.db, { ...(await filterOf(deps.db, query)), statuses: ['dead'] }, query),
        deadGroups(db),
      ]);
      return { jobs: found.jobs.map(shownJob), total: found.total, total_is_exact: found.totalIsExact, groups };
    },
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/dead/redrive',
    area,
    summary: 'Runs dead letters again, at most 200 a call: some, those of a filter, or all',
    access: operator,
    body: z
      .strictObject(which)
      .refine((body) => Object.values(body).some((value) => value !== undefined), { error: 'name which, or all' }),
    response: z.object({ redriven: z.int(), remaining: z.int() }),
    handle: async ({ body }, call) => {
      const { projectIds } = await idsOfNamed(call.db, { project: body.project });
      return redriveWithin(call, {
        ids: body.ids,
        type: body.type,
        projectIds: bothOf(listOf(body.project_id), projectIds),
        errorCode: body.error_code,
      });
    },
  }),
];
