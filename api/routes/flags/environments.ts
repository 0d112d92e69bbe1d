import { z } from 'zod';
import { checkedInThread } from '#api/http/body.ts';
import {
  createEnvironment,
  deleteEnvironment,
  listEnvironments,
  renameEnvironment,
} from '#domain/flags/environments.ts';
import {
  type ImportedFlags,
  compareEnvironments,
  copyEnvironment,
  exportFlags,
  importFlags,
} from '#domain/flags/transfer.ts';
import { inProject } from '#api/access.ts';
import { type Endpoint, RawReply, endpoint } from '#api/endpoint.ts';
import { id } from '#api/fields.ts';
import { environmentName, importedFlag, inEnvironment } from '#api/shapes/flags.ts';
import { authorOf } from '../flags.ts';
import { readers } from '#api/shapes/flag-bodies.ts';

const area = 'flags';
const path = '/projects/{project_id}/environments';
const projectPath = z.object({ project_id: id });
const environmentPath = z.object({ project_id: id, name: environmentName });

const environment = z.object({ name: z.string(), flags: z.int() });
const named = z.strictObject({ name: environmentName });
const keys = z.array(z.string());
const difference = z.object({ created: keys, updated: keys, deleted: keys, unchanged: keys });

/** Sets of flags of their own, and whole ones (contract, section 10). */
export const flagEnvironmentEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The environments of the project’s flags',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({ environments: z.array(environment), total: z.int() }),
    handle: async (_input, { db, project }) => {
      const environments = await listEnvironments(db, project.id);
      return { environments, total: environments.length };
    },
  }),
  endpoint({
    method: 'post',
    path,
    area,
    summary: 'Create an environment',
    access: inProject('developer'),
    params: projectPath,
    body: named,
    status: 201,
    response: environment,
    handle: ({ body }, { db, project }) => createEnvironment(db, project.id, body.name),
  }),
  endpoint({
    method: 'get',
    path: `${path}/compare`,
    area,
    summary: 'The flags in which two environments differ',
    access: inProject('viewer'),
    params: projectPath,
    query: z.object({ from: environmentName, to: environmentName }),
    response: z.object({
      only_from: keys,
      only_to: keys,
      different: z.array(z.object({ key: z.string(), fields: keys })),
    }),
    handle: ({ query }, { db, project }) => compareEnvironments(db, project.id, query),
  }),
  endpoint({
    method: 'patch',
    path: `${path}/{name}`,
    area,
    summary: 'Rename an environment',
    access: inProject('developer'),
    params: environmentPath,
    body: named,
    response: environment,
    handle: ({ params, body }, call) => {
      const { projectId } = authorOf(call);
      return renameEnvironment(call.db, projectId, { name: params.name, to: body.name });
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{name}`,
    area,
    summary: 'Delete an environment with its flags',
    access: inProject('developer'),
    params: environmentPath,
    handle: ({ params }, call) => deleteEnvironment(call.db, authorOf(call), params.name),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{name}/copy`,
    area,
    summary: 'Copy all flags of an environment into another, which is made where there is none',
    access: inProject('developer'),
    params: environmentPath,
    body: z.strictObject({ to: environmentName }),
    response: difference,
    handle: ({ params, body }, call) => copyEnvironment(call.db, authorOf(call), { from: params.name, to: body.to }),
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/flags/export',
    area,
    summary: 'A whole environment as JSON',
    access: inProject('viewer'),
    params: projectPath,
    query: inEnvironment,
    response: z.object({ environment: z.string(), flags: z.array(z.unknown()), segments: z.array(z.unknown()) }),
    handle: async ({ query }, { db, project }) => new RawReply(await exportFlags(db, project.id, query.environment)),
  }),
  endpoint({
    method: 'put',
    path: '/projects/{project_id}/flags/import',
    area,
    summary: 'Make an environment equal to a file; with dry_run=true only answer what would change',
    access: inProject('developer'),
    bodyLimit: 'flags',
    readBody: checkedInThread(readers.file),
    params: projectPath,
    query: z.object({
      environment: environmentName.optional().describe('Left out: that of the file, else production.'),
      dry_run: z.enum(['true', 'false']).default('false'),
    }),
    body: z.strictObject({
      environment: environmentName.optional(),
      flags: z.array(importedFlag),
      segments: z.array(z.unknown()).optional(),
    }),
    response: difference,
    handle: ({ query, body }, call) => {
      const { environment: own, ...file } = body as unknown as ImportedFlags & { environment?: string };
      const environmentOf = query.environment ?? own ?? 'production';
      return importFlags(call.db, authorOf(call), {
        environment: environmentOf,
        file,
        dryRun: query.dry_run === 'true',
      });
    },
  }),
];
