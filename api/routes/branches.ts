import { z } from 'zod';
import { actingAs } from '#domain/audit/actor.ts';
import { maxBranchBytes } from '#domain/database/branch.ts';
import { maxBranches, requireRoomForProject } from '#domain/projects/plans.ts';
import {
  branchesOf,
  deleteProjectRow,
  findProject,
  insertProject,
  markProjectDeleted,
} from '#domain/projects/store.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint, jobEndpoint } from '../endpoint.ts';
import { id, name } from '../fields.ts';
import { finishDeletion } from '../project-deletion.ts';
import { answerOfCreation, created, project, roomOf, shown, slugOf } from './projects.ts';

const area = 'projects';

const projectPath = z.object({ project_id: id });
const branchPath = z.object({ project_id: id, branch_id: id });

const usualHours = 72;
const maxHours = 30 * 24;

/** A branch of a branch would outlive its parent, and nobody could say what of. */
const requireParent = ({ project: parent }: Call<InProject>): void => {
  if (parent.branch_of !== null) {
    throw new ServiceError('conflict', 'A branch has no branches of its own.', {
      hint: 'Make another branch of the project.',
    });
  }
  if (parent.status !== 'active') {
    throw new ServiceError('project_not_ready', `The project is ${parent.status}, not active.`);
  }
};

const inMb = (bytes: number): number => Math.ceil(bytes / 1024 / 1024);

const requireSmall = async ({ deps, project: parent }: Call<InProject>): Promise<void> => {
  const admin = await deps.servers.admin(parent.server_id);
  const { rows } = await admin.query<{ bytes: number }>('select pg_database_size($1)::float8 as bytes', [
    parent.db_name,
  ]);
  const bytes = rows[0]?.bytes ?? 0;
  if (bytes <= maxBranchBytes) return;
  throw new ServiceError(
    'payload_too_large',
    `The database has ${inMb(bytes)} MB, and rows are copied of databases up to ${inMb(maxBranchBytes)} MB.`,
    {
      details: { limit: maxBranchBytes, value: bytes },
      hint: 'Leave with_rows out, and bring rows by a seed.',
    },
  );
};

const requireRoomForBranch = (parent: Call<InProject>['project'], present: number): void => {
  const max = maxBranches[parent.plan];
  if (present < max) return;
  throw new ServiceError('plan_limit_exceeded', `The project has ${present} branches, and ${max} is the limit.`, {
    hint: 'Delete one, or wait until one expires.',
  });
};

const createEndpoint = jobEndpoint({
  method: 'post',
  path: '/projects/{project_id}/branches',
  area,
  summary: 'Make a branch: a project that begins with the schema of this one, and goes at a set time',
  access: inProject('developer'),
  params: projectPath,
  body: z.strictObject({
    name,
    expires_in_hours: z.int().min(1).max(maxHours).default(usualHours),
    with_rows: z.boolean().default(false).describe('Copies the rows of all tables; never users, files and secrets.'),
  }),
  status: 201,
  response: created,
  request: async ({ body }, call) => {
    requireParent(call);
    if (body.with_rows) await requireSmall(call);
    const { project: parent } = call;
    const draft = {
      ...call.deps.projects.draft({
        orgId: parent.org_id,
        name: body.name,
        slug: slugOf(`${parent.slug.slice(0, 15)}_${body.name}`),
        plan: parent.plan,
        createdBy: call.user.id,
      }),
      branch: { of: parent.id, hours: body.expires_in_hours, rows: body.with_rows },
    };
    return {
      job: projectProvision,
      projectId: draft.id,
      requestId: call.requestId,
      data: {},
      actor: actingAs(call.actor),
      alongside: async (tx) => {
        // It locks the members of the organization, so that the count of branches is exact, too.
        await requireRoomForProject(tx, { ...roomOf(call), orgId: parent.org_id, plan: draft.plan });
        requireRoomForBranch(parent, (await branchesOf(tx, parent.id)).length);
        await insertProject(tx, draft);
      },
      undo: (tx) => deleteProjectRow(tx, draft.id),
    };
  },
  answer: answerOfCreation,
});

/** Branches of a project (decision 097). */
export const branchEndpoints: readonly Endpoint[] = [
  createEndpoint,
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/branches',
    area,
    summary: 'The branches of a project, newest first',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({ branches: z.array(project), total: z.int() }),
    handle: async (_input, call) => {
      const branches = await branchesOf(call.db, call.project.id);
      return { branches: branches.map((row) => shown(row, call)), total: branches.length };
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/branches/{branch_id}',
    area,
    summary: 'Delete a branch with its database',
    access: inProject('developer'),
    params: branchPath,
    auditAction: 'project.delete',
    handle: async ({ params }, { db, deps, project: parent, afterCommit }) => {
      const branch = await findProject(db, params.branch_id);
      if (branch?.branch_of !== parent.id || branch.deleted_at !== null) throw notFound('branch');
      await markProjectDeleted(db, branch.id);
      // Should it fail, it is logged, and what is left over is swept up.
      afterCommit(() => deps.projectChanged(branch.id));
      afterCommit(() => finishDeletion(deps, branch.id));
    },
  }),
];
