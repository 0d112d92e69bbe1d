import { z } from 'zod';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { type BulkAction, changeInBulk } from '#domain/jobs/bulk.ts';
import { countJobs, maxCountedJobs } from '#domain/jobs/detail.ts';
import type { JobFilter } from '#domain/jobs/filter.ts';
import { listJobs } from '#domain/jobs/list.ts';
import { projectQueue } from '#domain/jobs/project-queue.ts';
import { type JobStatus, maxListedResultLength, mayRead } from '#domain/jobs/store.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { createConcurrencyLimit } from '#lib/concurrency-limit.ts';
import { createSearchLimit } from '#lib/search-limit.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { type InProject, inProject, withKey } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, namedObject, page, text } from '../fields.ts';
import { jobEvents } from '#api/streams/job-events.ts';
import {
  bulkBody,
  bulkResult,
  detailedJob,
  job,
  jobStatus,
  listedJob,
  jobType,
  shown,
  shownAll,
  shownInDetail,
  shownInPublic,
} from '#api/shapes/jobs.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';

const area = 'jobs';

const projectPath = z.object({ project_id: id });
const jobPath = z.object({ project_id: id, job_id: id });

const listed = namedObject('ListedJob', {
  ...listedJob.shape,
  result: z.unknown().describe(`Null when it is longer than ${maxListedResultLength} bytes: ask for the job itself.`),
});

/** Which jobs of a project are listed, or changed together. */
const filterShape = {
  status: jobStatus.optional(),
  type: jobType.optional(),
  function_id: id.optional(),
  request_id: text(64, 1).optional(),
  key: text(200, 1).optional().describe('The unique key, for as long as it keeps others away, or the concurrency key.'),
  error: text(200, 1).optional().describe('A part of the error’s message.'),
  since: z.iso.datetime({ offset: true }).optional().describe('Accepted then or later.'),
  until: z.iso.datetime({ offset: true }).optional().describe('Accepted before that.'),
};
const filterFields = z.object(filterShape);

const timeOf = (time: string | undefined): Date | undefined => (time === undefined ? undefined : new Date(time));

const filterOf = (filter: z.output<typeof filterFields>): Omit<JobFilter, 'projectIds'> => ({
  statuses: filter.status === undefined ? undefined : [filter.status],
  type: filter.type,
  functionIds: filter.function_id === undefined ? undefined : [filter.function_id],
  requestId: filter.request_id,
  key: filter.key,
  errorText: filter.error,
  since: timeOf(filter.since),
  until: timeOf(filter.until),
});

/** The provisioning job must run for a project that is not ready. */
const requireRuns = ({ status }: Project, types: readonly string[]): void => {
  if (status === 'active' || types.every((type) => type === projectProvision.type)) return;
  throw new ServiceError('project_not_ready', `The project is ${status}; its jobs do not run.`);
};

/** A search may read all jobs of a project, for up to three seconds. */
const withSearch = createSearchLimit("a project's jobs");

const withChange = createConcurrencyLimit(
  1,
  () =>
    new ServiceError('rate_limited', 'Many jobs of the project are being changed already.', {
      headers: { 'Retry-After': '10' },
    }),
);

/** Lists by status and type are read by index, and are not searches. */
const listWithin = <T>(
  projectId: string,
  { functionIds, errorText, key }: JobFilter,
  read: () => Promise<T>,
): Promise<T> =>
  functionIds === undefined && errorText === undefined && key === undefined ? read() : withSearch(projectId, read);

/** One change of many jobs at a time for each project, and each retry counts in the month as a single one does. */
const changeMany = (
  { deps, project }: Call<InProject>,
  { action, filter, dryRun }: { readonly action: BulkAction; readonly filter: JobFilter; readonly dryRun: boolean },
) => {
  const monthly = { type: functionInvoke.type, limit: monthlyCaps(deps.config)[project.plan] };
  const retry: Jobs['retry'] = async (projectId, jobId) => {
    const notifications: (() => Promise<void>)[] = [];
    const afterCommit = (notify: () => Promise<void>): void => void notifications.push(notify);
    const row = await deps.db.transaction((tx) => deps.jobs.retry(projectId, jobId, { db: tx, afterCommit, monthly }));
    await Promise.all(notifications.map((notify) => notify()));
    return row;
  };
  const which = { ...filter, projectIds: [project.id] };
  return withChange(project.id, () =>
    changeInBulk(deps.db, { ...deps.jobs, retry }, { action, filter: which, dryRun }),
  );
};

const changing = (action: BulkAction, summary: string): Endpoint =>
  endpoint({
    method: 'post',
    path: `/projects/{project_id}/jobs/${action}`,
    area,
    summary,
    access: inProject('developer'),
    transaction: 'none',
    params: projectPath,
    body: bulkBody(action, filterShape),
    response: bulkResult,
    handle: ({ body: { filter, dry_run: dryRun } }, call) => {
      if (action === 'retry' && !dryRun) requireRuns(call.project, filter.type === undefined ? [''] : [filter.type]);
      return changeMany(call, { action, filter: filterOf(filter), dryRun });
    },
  });

const queue = namedObject('Queue', {
  waiting: z.int().describe('Counted up to 100,000.'),
  running: z.int(),
  limit: z.int().describe('How many may run at a time.'),
  oldest_wait_ms: z.int().nullable().describe('Of jobs that could run. Null when none waits.'),
  per_minute: z.number().describe('Runs that ended, on average of the last five minutes.'),
  failures: z.array(z.object({ function_id: id, count: z.int() })).describe('Of the last hour, the most first.'),
  held: z
    .object({ rate_limited: z.int(), debounce: z.int(), batch: z.int() })
    .describe('Of those that wait, the ones that their function does not let start yet.'),
  estimated_start_ms: z
    .int()
    .nullable()
    .describe('When a job that is enqueued now might start. Null when nothing has ended of late.'),
});

const dayMs = 24 * 3_600_000;

const noJobs = Object.fromEntries(jobStatus.options.map((status) => [status, 0])) as Record<JobStatus, number>;

/** Jobs of every kind (contract, section 3). */
export const jobEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs',
    area,
    summary: 'The jobs of a project, newest first',
    access: inProject('viewer'),
    params: projectPath,
    query: page.extend({ ...filterShape, q: filterShape.error }).omit({ error: true }),
    response: z.object({ jobs: z.array(listed), total: z.int().describe('Counted up to 100,000.') }),
    handle: async ({ query: { limit, offset, q, ...filter } }, { deps, project }) => {
      const which = filterOf({ ...filter, error: q });
      const { jobs, total } = await listWithin(project.id, which, () =>
        listJobs(deps.db, project.id, which, { limit, offset }),
      );
      return { jobs: await shownAll(deps.jobs, jobs), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/queue',
    area,
    summary: 'How the runs of the project’s functions get on: what waits, runs, ends and fails',
    access: inProject('viewer'),
    params: projectPath,
    response: queue,
    handle: async (_input, { deps, project }) => {
      const { failures, ...rest } = await withSearch(project.id, () => projectQueue(deps.db, project.id));
      return { ...rest, failures: [...failures] };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs/counts',
    area,
    summary: 'The number of a project’s jobs by status: all that have not ended, and what ended of a time',
    access: inProject('viewer'),
    params: projectPath,
    query: z.object({
      type: jobType.optional(),
      since: filterShape.since.describe('Ended jobs that were accepted then or later; left out: in the last 24 hours.'),
    }),
    response: z.object({
      counts: z.record(jobStatus, z.int()),
      is_capped: z.boolean().describe(`Of the ended ones only the latest ${maxCountedJobs} were counted.`),
    }),
    handle: async ({ query: { type, since } }, { deps, project }) => {
      const from = timeOf(since) ?? new Date(Date.now() - dayMs);
      const found = await withSearch(project.id, () => countJobs(deps.db, project.id, { type, since: from }));
      return { ...found, counts: { ...noJobs, ...found.counts } };
    },
  }),
  changing('retry', 'Runs the jobs of a filter again that failed, died, expired or were cancelled'),
  changing('cancel', 'Cancels the jobs of a filter that have not ended'),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs/{job_id}',
    area,
    summary: 'A job: where it stands and how it ended',
    access: inProject('viewer'),
    params: jobPath,
    response: detailedJob,
    handle: async ({ params }, { deps, project }) =>
      shownInDetail(deps, await deps.jobs.get(project.id, params.job_id)),
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs/{job_id}/events',
    area,
    summary: 'What happens to a job until it ends, as server-sent events: status, progress, log',
    access: inProject('viewer'),
    params: jobPath,
    response: z
      .string()
      .describe(
        `A result longer than ${maxListedResultLength} bytes is null: ask for the job itself. Ends after five minutes at most.`,
      ),
    mediaType: eventStreamType,
    handle: async ({ params }, { deps, project, user, signInId, setHeader }) => {
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await jobEvents(deps, { ...who, jobId: params.job_id });
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/jobs/{job_id}/cancel',
    area,
    summary: 'End a job that waits, or have one stopped that runs',
    access: inProject('developer'),
    params: jobPath,
    response: job,
    // Running jobs get a moment to stop: not within a transaction.
    transaction: 'none',
    handle: async ({ params }, { deps, project }) => shown(deps, await deps.jobs.cancel(project.id, params.job_id)),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/jobs/{job_id}/retry',
    area,
    summary: 'Run a job again that failed, died, expired or was cancelled; its id stays',
    access: inProject('developer'),
    params: jobPath,
    body: z.strictObject({
      from_step: text(200, 1)
        .optional()
        .describe('The first step that runs again. Left out: the first without a result.'),
    }),
    status: 202,
    response: job,
    handle: async ({ params, body: { from_step: fromStep } }, { db, deps, project, afterCommit }) => {
      const limit = monthlyCaps(deps.config)[project.plan];
      const monthly = { type: functionInvoke.type, limit };
      const row = await deps.jobs.retry(project.id, params.job_id, { db, afterCommit, monthly, fromStep });
      requireRuns(project, [row.type]);
      return shown({ jobs: deps.jobs, db }, row);
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/jobs/{job_id}',
    area,
    summary: 'A job that was started with this key or by this user; a secret key sees every job of its project',
    access: { ...withKey('secret', 'publishable', 'user'), evenInactive: true },
    params: z.object({ job_id: id }),
    response: job,
    handle: async ({ params }, { deps, project, caller, starter }) => {
      const row = await deps.jobs.get(project.id, params.job_id);
      if (!mayRead(row, starter)) throw notFound('job');
      return caller.role === 'service' ? shown(deps, row) : shownInPublic(deps, row);
    },
  }),
];
