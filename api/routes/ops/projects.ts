import { z } from 'zod';
import { jobTypes } from '#domain/ops/ops.ts';
import {
  pause,
  pausesOfProject,
  projectLoads,
  requireOrganization,
  requireProject,
  resume,
  setLimits,
} from '#domain/ops/projects.ts';
import { busyProjectsOf, setOrganizationLimit } from '#domain/jobs/limits.ts';
import { findProjects } from '#domain/ops/search.ts';
import { deletedProjects } from '#domain/projects/projects.ts';
import { findProject } from '#domain/projects/store.ts';
import { notFound } from '#lib/errors.ts';
import { operator } from '../../access.ts';
import type { BaseCall } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, text, wholeNumber } from '../../fields.ts';
import { jobType } from '#api/ops/shapes.ts';
import { slug } from '../projects.ts';

const area = 'operators';
const params = z.object({ project_id: id });
const count = z.int().nonnegative();
const limit = z.int().min(0).max(1_000_000).nullable();

const project = namedObject('OpsProject', {
  project_id: id,
  ref: z.string().nullable(),
  name: z.string().nullable(),
  plan: z.string().nullable(),
  type: z.string(),
  running: count,
  limit: count.nullable(),
  waiting: count,
  waiting_limit: count.nullable(),
  own_limit: count.nullable().describe('Set by operators in place of the plan’s.'),
  own_waiting_limit: count.nullable(),
  paused: z.boolean(),
  project_paused: z.boolean().describe('Paused in all its types.'),
});

const found = project.pick({ project_id: true, running: true }).extend({
  ref: z.string(),
  name: z.string(),
  plan: z.string(),
  waiting: count.describe('Counted up to 100,000.'),
});

const which = z.strictObject({ type: jobType.optional() });
const pauses = z.object({ project_id: id, paused: z.boolean(), paused_types: z.array(z.string()) });

const changed = ({ deps, afterCommit }: BaseCall, projectId: string, type: string | undefined): void =>
  afterCommit(() => deps.gate.rulesChanged({ projectId, ...(type !== undefined && { type }) }));

const pausing = (verb: 'pause' | 'resume', summary: string, change: typeof pause): Endpoint =>
  endpoint({
    method: 'post',
    path: `/ops/api/projects/{project_id}/${verb}`,
    area,
    summary,
    access: operator,
    params,
    body: which,
    response: pauses,
    handle: async ({ params: { project_id: projectId }, body: { type } }, call) => {
      await requireProject(call.db, projectId);
      await change(call.db, { projectId, type: type ?? null });
      changed(call, projectId, type);
      return { project_id: projectId, ...(await pausesOfProject(call.db, projectId)) };
    },
  });

const deleted = namedObject('DeletedProject', {
  project_id: id,
  ref: z.string(),
  name: z.string(),
  slug: z.string(),
  plan: z.string(),
  org_id: z.string(),
  org_name: z.string(),
  deleted_at: instant,
  restorable_until: instant,
  slug_taken: z.boolean().describe('Another project of the organization has its slug: a restore needs another one.'),
  org_deleted: z.boolean().describe('Its organization is deleted: it cannot be restored.'),
});

const restored = z.object({ project_id: id, ref: z.string(), slug: z.string(), status: z.string() });

/** Deleted projects, while their databases are kept. */
const deletedEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/projects/deleted',
    area,
    summary: 'Deleted projects whose databases are still kept, the latest 200',
    access: operator,
    response: z.object({ projects: z.array(deleted) }),
    handle: async (_input, { db, deps }) => ({
      projects: await deletedProjects(db, deps.config.PLINTH_DELETED_PROJECT_DAYS),
    }),
  }),
  endpoint({
    method: 'post',
    path: '/ops/api/projects/{project_id}/restore',
    area,
    summary: 'Gives a deleted project back with its database, keys, functions, schedules and webhooks',
    access: operator,
    params,
    body: z.strictObject({ slug: slug.optional().describe('When another project has the one that it had.') }),
    response: restored,
    transaction: 'none',
    handle: async ({ params: { project_id: projectId }, body }, { deps, requestId }) => {
      const actor = { type: 'operator', request_id: requestId } as const;
      const days = deps.config.PLINTH_DELETED_PROJECT_DAYS;
      await deps.projects.restore({ projectId, slug: body.slug, days, actor });
      await deps.projectChanged(projectId);
      const project = await findProject(deps.db, projectId);
      if (project === undefined) throw notFound('project');
      return { project_id: project.id, ref: project.ref, slug: project.slug, status: project.status };
    },
  }),
];

/** How much of the workers each project has. */
export const opsProjectEndpoints: readonly Endpoint[] = [
  ...deletedEndpoints,
  endpoint({
    method: 'get',
    path: '/ops/api/projects',
    area,
    summary: 'The projects with the most jobs waiting and running, and those that are paused or limited',
    access: operator,
    query: z.object({
      type: jobType.optional(),
      limit: wholeNumber(50, 1, 200),
    }),
    response: z.object({ projects: z.array(project) }),
    handle: async ({ query: { type, limit: max } }, { db, deps }) => ({
      projects: await projectLoads(db, deps.gate, { types: type === undefined ? jobTypes : [type], limit: max }),
    }),
  }),
  endpoint({
    method: 'get',
    path: '/ops/api/projects/search',
    area,
    summary: 'Finds projects by id, ref, slug or name, and counts their jobs that wait and run',
    access: operator,
    query: z.object({ project: text(200, 1).describe('Id, ref, slug or name.'), type: jobType.optional() }),
    response: z.object({ projects: z.array(found) }),
    handle: async ({ query: { project: named, type } }, { deps }) => ({
      projects: await findProjects(deps.db, { project: named, type }),
    }),
  }),
  endpoint({
    method: 'put',
    path: '/ops/api/projects/{project_id}/limits',
    area,
    summary: 'Sets how many jobs of a type may run and wait; null gives the plan’s limit back',
    access: operator,
    params,
    body: z.strictObject({ type: jobType, running: limit, waiting: limit }),
    response: z.object({ project_id: id, type: z.string(), running: limit, waiting: limit }),
    handle: async ({ params: { project_id: projectId }, body: { type, running, waiting } }, call) => {
      await requireProject(call.db, projectId);
      await setLimits(call.db, projectId, type, { running, waiting });
      changed(call, projectId, type);
      return { project_id: projectId, type, running, waiting };
    },
  }),
  endpoint({
    method: 'put',
    path: '/ops/api/organizations/{org_id}/limits',
    area,
    summary: 'Sets how many jobs of a type an organization runs in all; null gives the setting back',
    access: operator,
    params: z.object({ org_id: text(40, 1) }),
    body: z.strictObject({ type: jobType, running: z.int().min(1).max(1_000_000).nullable() }),
    response: z.object({ org_id: z.string(), type: z.string(), running: limit }),
    handle: async ({ params: { org_id: id }, body: { type, running } }, { db, deps, afterCommit }) => {
      await requireOrganization(db, id);
      await setOrganizationLimit(db, id, type, running);
      afterCommit(async () => {
        for (const projectId of await busyProjectsOf(deps.db, id, type)) {
          await deps.gate.rulesChanged({ type, projectId });
        }
      });
      return { org_id: id, type, running };
    },
  }),
  pausing('pause', 'Hands no jobs of the project, or of one of its types, to workers', pause),
  pausing('resume', 'Hands the project’s jobs to workers again; without a type, those of all types', resume),
];
