import { z } from 'zod';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { listJobs, maxListedResultLength, mayRead } from '#domain/jobs/store.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { inProject, withKey } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, page } from '../fields.ts';
import { jobEvents } from '#api/streams/job-events.ts';
import { inPublic, job, jobStatus, jobType, shown, shownAll } from '#api/shapes/jobs.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';

const area = 'jobs';

const projectPath = z.object({ project_id: id });
const jobPath = z.object({ project_id: id, job_id: id });

const listed = job.extend({
  result: z.unknown().describe(`Null when it is longer than ${maxListedResultLength} bytes: ask for the job itself.`),
});

/** Jobs of every kind (contract, section 3). */
export const jobEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs',
    area,
    summary: 'The jobs of a project, newest first',
    access: inProject('viewer'),
    params: projectPath,
    query: page.extend({ status: jobStatus.optional(), type: jobType.optional() }),
    response: z.object({ jobs: z.array(listed), total: z.int().describe('Counted up to 100,000.') }),
    handle: async ({ query }, { db, deps, project }) => {
      const { jobs, total } = await listJobs(db, project.id, query);
      return { jobs: await shownAll(deps.jobs, jobs), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs/{job_id}',
    area,
    summary: 'A job: where it stands and how it ended',
    access: inProject('viewer'),
    params: jobPath,
    response: job,
    handle: async ({ params }, { deps, project }) => shown(deps.jobs, await deps.jobs.get(project.id, params.job_id)),
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
    handle: async ({ params }, { deps, project }) =>
      shown(deps.jobs, await deps.jobs.cancel(project.id, params.job_id)),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/jobs/{job_id}/retry',
    area,
    summary: 'Run a job again that failed, died, expired or was cancelled; its id stays',
    access: inProject('developer'),
    params: jobPath,
    status: 202,
    response: job,
    handle: async ({ params }, { db, deps, project, afterCommit }) => {
      const limit = monthlyCaps(deps.config)[project.plan];
      const monthly = { type: functionInvoke.type, limit };
      const row = await deps.jobs.retry(project.id, params.job_id, { db, afterCommit, monthly });
      // The provisioning job must run for a project that is not ready.
      if (project.status !== 'active' && row.type !== projectProvision.type) {
        throw new ServiceError('project_not_ready', `The project is ${project.status}; its jobs do not run.`);
      }
      return shown(deps.jobs, row);
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
      const seen = await shown(deps.jobs, row);
      return caller.role === 'service' ? seen : inPublic(seen);
    },
  }),
];
