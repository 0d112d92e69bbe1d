import { z } from 'zod';
import {
  type EnqueueLimits,
  type EnqueueOrder,
  type Enqueued,
  admitEnqueued,
  enqueue,
} from '#domain/functions/enqueue.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { lengthFirst } from '#lib/length-first.ts';
import type { Log } from '#lib/log.ts';
import { checkRelated, enqueueFields, maxEnqueued } from '#queues/enqueue-options.ts';
import type { Gate } from '#queues/gate/types.ts';
import { CallFault } from '../runtimes/runtime.ts';
import type { OpenService } from './services.ts';

const job = z.strictObject({ payload: z.unknown().optional(), ...enqueueFields }).superRefine(checkRelated);

const enqueueArgs = lengthFirst(
  z.object({
    slug: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, { error: 'must be the slug of a function' }),
    jobs: z.array(job).min(1).max(maxEnqueued, `at most ${maxEnqueued} jobs may be enqueued in one call`),
  }),
);

/**
 * The jobs of a call of user code.
 * @throws {CallFault} that names the first field that is wrong
 */
export const jobsOfCall = (args: unknown): Pick<EnqueueOrder, 'jobs'> & { readonly slug: string } => {
  const parsed = enqueueArgs.safeParse(args);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue?.path.map(String).join('.') ?? '';
    throw new CallFault('TypeError', `jobs.enqueue: ${field}: ${issue?.message ?? 'the arguments are not understood'}`);
  }
  const { slug, jobs } = parsed.data;
  return {
    slug,
    jobs: jobs.map(({ payload, ...options }) => ({ payload: JSON.stringify(payload ?? null), options })),
  };
};

/** How user code hears of a refusal: `error.code` is that of the HTTP call. */
export const jobFault = (error: unknown): unknown =>
  error instanceof ServiceError && error.status < 500
    ? new CallFault('JobError', error.message, { code: error.code })
    : error;

interface JobServiceDeps {
  readonly db: ControlDb;
  /** Known once the engine has started: no run begins before. */
  readonly gate: () => Pick<Gate, 'admit'> | undefined;
  readonly log: Log;
  readonly limits: EnqueueLimits;
}

type RunFacts = Pick<Parameters<OpenService>[0], 'projectId' | 'functionId' | 'requestId' | 'depth'>;

const enqueueNow = async (deps: JobServiceDeps, run: RunFacts, args: unknown): Promise<readonly Enqueued[]> => {
  const { db, log, limits } = deps;
  const { slug, jobs } = jobsOfCall(args);
  const { projectId, requestId = '', depth = 0 } = run;
  const order = { by: { slug }, jobs, trigger: 'job', requestId, depth: depth + 1 } as const;
  const done = await db.transaction(async (tx) => {
    const project = await findProject(tx, projectId);
    if (project === undefined || project.deleted_at !== null) throw notFound('project');
    return enqueue(tx, project, order, limits);
  }, systemActor);
  const gate = deps.gate();
  if (gate) await admitEnqueued({ db, gate, log }, done.admissions);
  return done.enqueued;
};

/** `sdk.jobs`: jobs that a run enqueues outside of transactions. */
export const jobService =
  (deps: JobServiceDeps): OpenService =>
  (run) => ({
    answers: {
      'jobs.enqueue': (args) =>
        enqueueNow(deps, run, args).catch((error: unknown) => {
          throw jobFault(error);
        }),
    },
    close: () => Promise.resolve(),
  });
