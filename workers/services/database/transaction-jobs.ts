import { z } from 'zod';
import { addSource } from '#domain/events/subscriptions.ts';
import { requireRoom } from '#domain/jobs/accept.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { type EnqueueLimits, type Enqueued, requireDepth } from '#domain/functions/enqueue.ts';
import { jobsText } from '#domain/functions/job-outbox.ts';
import { getFunctionVersion } from '#domain/functions/functions.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { jobFault, jobsOfCall } from '../jobs.ts';
import type { OpenService } from '../services.ts';
import { parseArgs } from './arguments.ts';
import { faultOfStatement } from './faults.ts';
import type { RunSessions } from './sessions.ts';

export interface TransactionJobsDeps {
  readonly db: ControlDb;
  readonly limits: EnqueueLimits;
}

type Run = Parameters<OpenService>[0];

const txArgs = z.object({ tx: z.int('the transaction is unknown') });

const checked = async ({ db, limits }: TransactionJobsDeps, run: Run, args: unknown) => {
  const { slug, jobs } = jobsOfCall(args);
  const { projectId, requestId = '', depth = 0 } = run;
  try {
    requireDepth(depth + 1);
    await getFunctionVersion(db, projectId, { slug });
    await requireRoom(db, { type: functionInvoke.type, projectId }, jobs.length, limits.waitingJobs);
  } catch (error) {
    throw jobFault(error);
  }
  return { by: { slug }, jobs: jobs.map((job) => ({ ...job, id: newId() })), depth: depth + 1, requestId };
};

/**
 * Enqueues jobs within a transaction of the project's database: they wait in its outbox, so they exist only if it
 * commits. Whether an earlier job has a unique key is known only then.
 */
export const enqueueWithin = async (
  deps: TransactionJobsDeps,
  run: Run,
  sessions: RunSessions,
  args: unknown,
): Promise<readonly Enqueued[]> => {
  const { tx } = parseArgs(txArgs, 'jobs.enqueue', args);
  const order = await checked(deps, run, args);
  try {
    await sessions.transaction(tx).use((client) => client.query('select plinth_api.keep_jobs($1)', [jobsText(order)]));
  } catch (error) {
    throw faultOfStatement(error, false);
  }
  // The lock of the insert is held: the relay does not forget a project whose outbox is in use.
  await addSource(deps.db, run.projectId);
  return order.jobs.map(({ id }) => ({ job_id: id, status: 'queued' }));
};
