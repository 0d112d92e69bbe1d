import { z } from 'zod';
import { upcomingFires } from '#domain/ops/trouble.ts';
import { operator } from '../../access.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, wholeNumber } from '../../fields.ts';

const fire = z.object({
  schedule_id: id,
  project_id: id,
  project_ref: z.string(),
  project_name: z.string(),
  name: z.string(),
  schedule: z.string().describe('The expression.'),
  timezone: z.string(),
  target_type: z.string(),
  function_name: z.string().nullable(),
  next_run_at: instant.nullable(),
  overdue_seconds: z.number().nullable().describe('Since when it should have fired; null when it is in time.'),
  last_run: z
    .object({
      status: z.string(),
      fire_at: instant,
      job_id: id.nullable(),
      reason: z.string().nullable(),
      error_code: z.string().nullable(),
      error_message: z.string().nullable(),
    })
    .nullable(),
});

/** The next fires of schedules. */
export const opsCronEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/ops/api/cron/upcoming',
    area: 'operators',
    summary: 'The schedules that fire next, in all projects, soonest first',
    access: operator,
    query: z.object({
      limit: wholeNumber(50, 1, 200),
    }),
    response: z.object({ fires: z.array(fire) }),
    handle: async ({ query }, { db }) => ({ fires: await upcomingFires(db, query.limit) }),
  }),
];
