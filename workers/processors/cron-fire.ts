import type { cronFire } from '#queues/cron-fire.ts';
import type { JobData } from '#queues/define.ts';
import type { Processor } from '../processor.ts';
import { type HttpTargetDeps, runHttpTarget } from './cron/http-target.ts';
import { type SqlTargetDeps, runSqlTarget } from './cron/sql-target.ts';

/** Fires a schedule's HTTP call or SQL. Once the call or the SQL was sent, whatever happens is its outcome. */
export const cronFireProcessor = (deps: HttpTargetDeps & SqlTargetDeps): Processor => ({
  run: (data, context) => {
    const { target, payload, schedule_id: scheduleId, run_id: runId } = data as JobData<typeof cronFire>;
    return target.type === 'http'
      ? runHttpTarget(deps, { url: target.url, payload, scheduleId, runId }, context.signal)
      : runSqlTarget(deps, { projectId: context.projectId, sql: target.sql }, context.signal);
  },
});
