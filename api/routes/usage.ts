import { z } from 'zod';
import { monthlyCaps } from '#domain/functions/caps.ts';
import { usageOf } from '#domain/jobs/usage.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant } from '../fields.ts';

/** What a project uses of what its plan gives it (contract, section 4). */
export const usageEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/usage',
    area: 'projects',
    summary: 'What the project has used, and how much it may',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    response: z.object({
      invocations: z.object({
        used: z.int(),
        limit: z.int().nullable().describe('Null: none.'),
        resets_at: instant.describe('The first instant of the next month, UTC.'),
      }),
    }),
    handle: async (_input, { db, deps, project }) => ({
      invocations: {
        ...(await usageOf(db, project.id, functionInvoke.type)),
        limit: monthlyCaps(deps.config)[project.plan],
      },
    }),
  }),
];
