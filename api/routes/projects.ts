import { z } from 'zod';
import { actingAs } from '#domain/audit/actor.ts';
import { writeLimits } from '#domain/database-servers/limits.ts';
import { inDatabase } from '#domain/database-servers/database-servers.ts';
import { writeExposedSchemas } from '#domain/database/database.ts';
import { createApiKey } from '#domain/projects/api-keys.ts';
import { requirePlanChange, requireRoomForProject } from '#domain/projects/plans.ts';
import {
  type Project,
  deleteProjectRow,
  findProject,
  insertProject,
  markProjectDeleted,
  projectsOf,
  statementTimeoutBounds,
  statementTimeoutsOf,
  updateProject,
} from '#domain/projects/store.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { type InProject, type SignedIn, inProject, signedInWith } from '../access.ts';
import { requireOrganization } from '../auth/authenticate.ts';
import type { Call } from '../call.ts';
import { type Endpoint, type JobEnd, endpoint, jobEndpoint } from '../endpoint.ts';
import { id, instant, name, namedObject, orgId, page, plan, shownOnce } from '../fields.ts';
import { finishDeletion } from '../project-deletion.ts';
import { restUrl } from '#api/http/rest-url.ts';

const area = 'projects';

export const slug = z.string().regex(/^[a-z][a-z0-9_]{0,30}$/, {
  error: 'must begin with a letter a-z and go on with at most 30 letters a-z, digits or underscores',
});

export const project = namedObject('Project', {
  id,
  ref: z.string(),
  name: z.string(),
  slug: z.string(),
  org_id: z.string(),
  plan,
  status: z.enum(['creating', 'active', 'paused', 'deleting', 'failed']),
  db_name: z.string(),
  rest_url: z.string(),
  exposed_schemas: z.array(z.string()).describe('Beside public, which the data API always serves.'),
  statement_timeouts: z.object({ anon: z.int(), authenticated: z.int(), secret: z.int() }).describe('In ms.'),
  branch_of: id.nullable().describe('The project that this is a branch of.'),
  expires_at: instant.nullable().describe('When a branch is deleted.'),
  created_at: instant,
});

export const created = namedObject('ProjectWithKeys', {
  ...project.shape,
  api_key: shownOnce(z.string()).describe('The secret key. It appears here only.'),
  publishable_key: shownOnce(z.string()).describe('For browsers: bound by row-level security. It appears here only.'),
});

const isReserved = (schema: string): boolean =>
  /^(?:pg_|plinth)/.test(schema) || ['information_schema', 'auth', 'storage'].includes(schema);

const exposedSchema = z
  .string()
  .min(1)
  .max(63)
  .refine((schema) => !isReserved(schema) && !schema.includes('\0'), { error: 'cannot be exposed' });

const timeout = z.int().min(statementTimeoutBounds.min).max(statementTimeoutBounds.max).nullish();

const projectChange = z.strictObject({
  name: name.optional(),
  plan: plan.optional(),
  exposed_schemas: z
    .array(exposedSchema)
    .max(20)
    .optional()
    .describe('Schemas that the data API serves beside public; the whole list.'),
  statement_timeouts: z
    .strictObject({ anon: timeout, authenticated: timeout, secret: timeout })
    .optional()
    .describe('How long a statement of the data API may take, in ms; null: the usual 3,000, 8,000 and 30,000.'),
});

/** In the project's database first: a schema that is named there and not here is only not served. */
const exposeSchemas = async (
  call: Call<InProject>,
  schemas: readonly string[] | undefined,
): Promise<string[] | undefined> => {
  if (schemas === undefined) return undefined;
  const names = [...new Set(schemas)].filter((schema) => schema !== 'public');
  if (call.project.status !== 'active') {
    throw new ServiceError('project_not_ready', `The project is ${call.project.status}, not active.`);
  }
  await inDatabase(call.deps.servers, call.project, (client) => writeExposedSchemas(client, names));
  return names;
};

const projectPath = z.object({ project_id: id });

export const shown = (row: Project, call: Pick<Call<SignedIn>, 'deps' | 'baseUrl'>): z.output<typeof project> => ({
  ...row,
  exposed_schemas: [...row.exposed_schemas],
  statement_timeouts: statementTimeoutsOf(row),
  rest_url: restUrl(row.ref, call),
});

const organizationToCreateIn = async (call: Call<SignedIn>, orgId: string | undefined): Promise<string> => {
  const { organization } = await requireOrganization(call.db, call, orgId, 'developer');
  return organization.id;
};

export const roomOf = ({ user, deps }: Pick<Call<SignedIn>, 'user' | 'deps'>) => ({
  userId: user.id,
  max: deps.config.PLINTH_FREE_PROJECTS_PER_ORG,
});

/** `My Blog` → `my_blog`, for callers who leave the slug to us. */
export const slugOf = (text: string): string =>
  text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replace(/^[^a-z]+/, '')
    .slice(0, 31)
    .replace(/_+$/, '') || 'project';

/** The answer to who has made a project: its keys are shown in it, once. */
export const answerOfCreation = async (
  { projectId, outcome, replayed }: JobEnd,
  call: Call<SignedIn> | Call<InProject>,
): Promise<z.output<typeof created> | z.output<typeof project>> => {
  if (outcome.status !== 'succeeded') {
    const tooLarge = outcome.error?.code === 'payload_too_large' ? outcome.error.message : null;
    throw new ServiceError('provision_failed', tooLarge ?? 'The project’s database could not be made.', {
      hint: tooLarge === null ? 'Delete the project and try again.' : 'Delete the branch, and make it without rows.',
      details: { project_id: projectId },
    });
  }
  const row = await findProject(call.deps.db, projectId);
  if (row === undefined || row.deleted_at !== null) throw notFound('project');
  if (replayed) return shown(row, call);
  const keys = await call.deps.db.transaction(async (tx) => {
    const secret = await createApiKey(tx, projectId, { name: 'default', kind: 'secret', expiresAt: null });
    const publishable = await createApiKey(tx, projectId, { name: 'default', kind: 'publishable', expiresAt: null });
    return { api_key: secret.api_key, publishable_key: publishable.api_key };
  }, actingAs(call.actor));
  return { ...shown(row, call), ...keys };
};

const createEndpoint = jobEndpoint({
  method: 'post',
  path: '/projects',
  area,
  summary: 'Make a project with its own database; answers when the database is usable',
  access: signedInWith('write'),
  body: z.strictObject({
    name,
    org_id: orgId.optional(),
    slug: slug.optional(),
    plan: plan.default('free'),
  }),
  status: 201,
  response: created,
  beforeReplay: ({ body }, call) => organizationToCreateIn(call, body.org_id),
  request: async ({ body }, call) => {
    requirePlanChange(call.deps.config.PLINTH_PLAN_CHANGES, body.plan);
    const orgId = await organizationToCreateIn(call, body.org_id);
    const draft = call.deps.projects.draft({
      orgId,
      name: body.name,
      slug: body.slug ?? slugOf(body.name),
      plan: body.plan,
      createdBy: call.user.id,
    });
    return {
      job: projectProvision,
      projectId: draft.id,
      requestId: call.requestId,
      data: {},
      actor: actingAs(call.actor),
      alongside: async (tx) => {
        await requireRoomForProject(tx, { ...roomOf(call), orgId, plan: draft.plan });
        await insertProject(tx, draft);
      },
      undo: (tx) => deleteProjectRow(tx, draft.id),
    };
  },
  answer: answerOfCreation,
});

/** Projects (contract, section 2). */
export const projectEndpoints: readonly Endpoint[] = [
  createEndpoint,
  endpoint({
    method: 'get',
    path: '/projects',
    area,
    summary: 'The projects of all your organizations, newest first',
    access: signedInWith('read'),
    query: page.extend({ org_id: orgId.optional() }),
    response: z.object({ projects: z.array(project), total: z.int() }),
    handle: async ({ query }, call) => {
      const { orgId: only } = call.credential;
      if (only !== null && query.org_id !== undefined && query.org_id !== only) return { projects: [], total: 0 };
      const filter = { ...query, orgId: query.org_id ?? only ?? undefined };
      const { projects, total } = await projectsOf(call.db, call.user.id, filter);
      return { projects: projects.map((row) => shown(row, call)), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}',
    area,
    summary: 'A project',
    access: inProject('viewer'),
    params: projectPath,
    response: project,
    handle: (_input, call) => Promise.resolve(shown(call.project, call)),
  }),
  endpoint({
    method: 'patch',
    path: '/projects/{project_id}',
    area,
    summary: 'Rename a project, set up its data API, or change its plan (owners)',
    access: inProject('developer'),
    params: projectPath,
    body: projectChange,
    response: project,
    handle: async ({ body }, call) => {
      if (body.plan !== undefined && body.plan !== call.project.plan) {
        if (call.role !== 'owner')
          throw new ServiceError('forbidden', `Changing the plan needs the role owner; yours is ${call.role}.`);
        requirePlanChange(call.deps.config.PLINTH_PLAN_CHANGES, body.plan);
        await requireRoomForProject(call.db, { ...roomOf(call), orgId: call.project.org_id, plan: body.plan });
      }
      const exposed = await exposeSchemas(call, body.exposed_schemas);
      const row = await updateProject(call.db, call.project.id, { ...body, exposed_schemas: exposed });
      if (row === undefined) throw notFound('project');
      if (body.exposed_schemas !== undefined || body.statement_timeouts !== undefined) {
        call.afterCommit(() => call.deps.projectChanged(row.id));
      }
      // Should it fail, the gate reads its rules again within half a minute.
      if (row.plan !== call.project.plan) {
        call.afterCommit(() => call.deps.projectChanged(row.id));
        call.afterCommit(() => call.deps.gate.rulesChanged({ projectId: row.id }));
        // Should it fail, the next sweep does it.
        if (row.status === 'active') {
          call.afterCommit(() => inDatabase(call.deps.servers, row, (client) => writeLimits(client, row.plan)));
        }
      }
      return shown(row, call);
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}',
    area,
    summary: 'Delete a project; its database is kept for 7 days, then dropped',
    access: inProject('owner'),
    params: projectPath,
    auditAction: 'project.delete',
    handle: async (_input, { db, deps, project: { id: projectId }, afterCommit }) => {
      await markProjectDeleted(db, projectId);
      // Should it fail, it is logged, and what is left over is swept up.
      afterCommit(() => deps.projectChanged(projectId));
      afterCommit(() => finishDeletion(deps, projectId));
    },
  }),
];
