import { z } from 'zod';
import { maskedValue, maxVars } from '#domain/functions/env-vars.ts';
import { changeProjectEnv, projectEnvNames } from '#domain/functions/project-env.ts';
import { envVars } from '#api/shapes/functions.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';

const area = 'functions';
const path = '/projects/{project_id}/env';
const params = z.object({ project_id: id });
const response = z.object({ env_vars: z.record(z.string(), z.string()).describe('Values are masked.') });

const masked = (names: readonly string[]): z.output<typeof response> => ({
  env_vars: Object.fromEntries(names.map((name) => [name, maskedValue])),
});

/** Variables that all functions of a project share (contract, section 12). */
export const projectEnvEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The variables that all functions of the project share; their values are shown to nobody',
    access: inProject('viewer'),
    params,
    response,
    handle: async (_, { db, project }) => masked(await projectEnvNames(db, project.id)),
  }),
  endpoint({
    method: 'patch',
    path,
    area,
    summary: 'Set and unset shared variables, many at once; every run that starts afterwards sees them',
    access: inProject('developer'),
    params,
    body: z.strictObject({
      env_vars: envVars.describe(
        `Merged; null deletes a variable, a masked value keeps it. At most ${maxVars} and 128 KB altogether.`,
      ),
    }),
    response,
    handle: async ({ body }, { db, deps, project }) =>
      masked(await changeProjectEnv(db, project.id, body.env_vars, deps.projects.sealer(project))),
  }),
];
