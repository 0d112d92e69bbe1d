import { z } from 'zod';
import type { JobRow } from '#domain/jobs/store.ts';
import { notFound } from '#lib/errors.ts';
import { parseExactJson } from '#lib/json.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { inProject, withKey } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant } from '../fields.ts';

const area = 'jobs';

const job = z.object({
  id,
  type: z.string(),
  status: z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'dead']),
  progress: z.number().nullable(),
  attempt: z.int(),
  max_attempts: z.int(),
  result: z.unknown(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  created_at: instant,
  started_at: instant.nullable(),
  finished_at: instant.nullable(),
  request_id: z.string(),
});

const shown = (row: JobRow): z.output<typeof job> => ({
  ...row,
  result: row.result === null ? null : parseExactJson(row.result),
  error: row.error_code === null ? null : { code: row.error_code, message: row.error_message ?? '' },
});

/** Without a secret key: runs of functions only, and nothing of what a function says of its own inside. */
const shownInPublic = (row: JobRow): z.output<typeof job> => {
  if (row.type !== functionInvoke.type) throw notFound('job');
  const { result, error, ...rest } = shown(row);
  const { error: _error, logs: _logs, ...answer } = (result ?? {}) as Record<string, unknown>;
  const code = error?.code ?? '';
  return {
    ...rest,
    result: result === null ? null : answer,
    error: error && { code, message: `The function failed (${code}).` },
  };
};

/** Jobs of every kind (contract, section 3). */
export const jobEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/jobs/{job_id}',
    area,
    summary: 'A job: where it stands and how it ended',
    access: inProject('viewer'),
    params: z.object({ project_id: id, job_id: id }),
    response: job,
    handle: async ({ params }, { deps, project }) => shown(await deps.jobs.get(project.id, params.job_id)),
  }),
  endpoint({
    method: 'get',
    path: '/api/jobs/{job_id}',
    area,
    summary: 'A job of the key’s project',
    access: withKey('secret', 'publishable'),
    params: z.object({ job_id: id }),
    response: job,
    handle: async ({ params }, { deps, project, key }) => {
      const row = await deps.jobs.get(project.id, params.job_id);
      return key.kind === 'secret' ? shown(row) : shownInPublic(row);
    },
  }),
];
