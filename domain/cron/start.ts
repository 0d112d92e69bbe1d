import type { NewJobRow } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { cronFire } from '#queues/cron-fire.ts';
import type { JobData, JobDefinition } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { Contents } from './due-store.ts';

/** Starts a run of a schedule: creates its job, or returns the reason why there is none. */
export type Start =
  | { readonly job: NewJobRow; readonly reason: null }
  | { readonly job: null; readonly reason: string };

export const functionIsGone = 'the function was deleted';

const jobOf = (
  definition: JobDefinition,
  { id, project_id: projectId }: Pick<Contents, 'id' | 'project_id'>,
  runId: string,
  data: unknown,
): NewJobRow => ({
  id: newId(),
  projectId,
  startedBy: { kind: 'cron', id },
  type: definition.type,
  data: JSON.stringify(data),
  maxAttempts: definition.maxAttempts,
  requestId: `cron-${runId}`,
});

/**
 * The job of one run.
 * @param called the function that the schedule calls: its present version, null when there is none, and how many runs of
 * functions the project may have this month
 */
export const startOf = (
  schedule: Contents,
  called: { readonly version: number | null; readonly monthlyLimit: number | null },
  runId: string,
): Start => {
  const { id, target, payload } = schedule;
  if (target.type !== 'function') {
    const data: JobData<typeof cronFire> = { schedule_id: id, run_id: runId, target, payload };
    return { job: jobOf(cronFire, schedule, runId, data), reason: null };
  }
  if (called.version === null) return { job: null, reason: functionIsGone };
  const data: JobData<typeof functionInvoke> = {
    function_id: target.function_id,
    version: called.version,
    trigger: 'cron',
    payload,
  };
  const job = jobOf(functionInvoke, schedule, runId, data);
  return { job: { ...job, monthlyLimit: called.monthlyLimit }, reason: null };
};
