import { z } from 'zod';
import { type EnqueueOrder, admitEnqueued, enqueue, enqueueLimitsFrom } from '#domain/functions/enqueue.ts';
import { ServiceError } from '#lib/errors.ts';
import { checkRelated, enqueueFields, maxEnqueued } from '#queues/enqueue-options.ts';
import { type KeyHolder, inProject, withKey } from '../../access.ts';
import type { BaseCall, DataCall } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { exactBody } from '../../http/exact-body.ts';
import { functionCaller } from './public-call.ts';

const area = 'functions';

const job = { payload: z.unknown().optional().describe('Any JSON; null when it is left out.'), ...enqueueFields };
const oneJob = z.strictObject(job).superRefine(checkRelated);

const one = Object.keys(job);

const body = z
  .strictObject({
    ...job,
    payloads: z
      .array(z.unknown())
      .min(1)
      .max(maxEnqueued)
      .optional()
      .describe('Many jobs with the same options, all of them or none.'),
    jobs: z
      .array(oneJob)
      .min(1)
      .max(maxEnqueued)
      .optional()
      .describe('Many jobs with options of their own, all of them or none.'),
  })
  .superRefine((given, context) => {
    checkRelated(given, context);
    const many = given.jobs === undefined ? 'payloads' : 'jobs';
    const excluded = given.jobs !== undefined ? [...one, 'payloads'] : given.payloads !== undefined ? ['payload'] : [];
    const beside = excluded.find((field) => Object.hasOwn(given, field));
    if (beside !== undefined)
      context.addIssue({ code: 'custom', path: [beside], message: `must not stand beside ${many}` });
  });
type Body = z.output<typeof body>;
interface Payloads {
  readonly payload?: unknown;
  readonly payloads?: readonly unknown[] | undefined;
  readonly jobs?: readonly { readonly payload?: unknown }[] | undefined;
}

const response = z.object({
  jobs: z.array(
    z.object({
      job_id: id,
      status: z
        .enum(['queued', 'duplicate'])
        .describe(
          'duplicate: an earlier job has the unique key; the id is its, and no other one was made. Where the function debounces, that job has this payload now.',
        ),
    }),
  ),
});

const payloadsOf = (given: Body, bodyText: string): readonly unknown[] => {
  const { jobs, payload, payloads = [payload] } = exactBody<Payloads>(given, bodyText);
  return jobs === undefined ? payloads : jobs.map((each) => each.payload);
};

const jobsOf = (given: Body, bodyText: string): EnqueueOrder['jobs'] => {
  const { jobs, payload: _payload, payloads: _payloads, ...shared } = given;
  return payloadsOf(given, bodyText).map((payload, place) => {
    const { payload: _own, ...options } = jobs?.[place] ?? { ...shared, payload: null };
    return { payload: JSON.stringify(payload ?? null), options };
  });
};

const privileged = ['jobs', 'payloads', 'priority', 'concurrency_key', 'concurrency', 'retry'] as const;

const maxModestDelayMs = 3_600_000;

const isLate = ({ delay_ms: delayMs = 0, run_at: runAt }: Body): boolean =>
  delayMs > maxModestDelayMs || (runAt !== undefined && Date.parse(runAt) > Date.now() + maxModestDelayMs);

/**
 * Others than the project itself could make much work of one call, go before its own jobs, or take all places of waiting
 * jobs for a year.
 */
const requireModest = (given: Body): void => {
  const field = privileged.find((name) => given[name] !== undefined);
  if (field !== undefined) throw new ServiceError('forbidden', `Only a secret key may use ${field}.`);
  if (isLate(given))
    throw new ServiceError('forbidden', 'Only a secret key may have a job wait for more than an hour.');
};

const enqueueWith = async (
  { deps, db, project, requestId, starter, afterCommit }: BaseCall & Pick<DataCall, 'project'>,
  order: Pick<EnqueueOrder, 'by' | 'jobs' | 'trigger' | 'caller'>,
): Promise<z.output<typeof response>> => {
  const whole = { ...order, requestId, startedBy: starter, depth: 0 };
  const { enqueued, admissions } = await enqueue(db, project, whole, enqueueLimitsFrom(deps.config));
  afterCommit(() => admitEnqueued(deps, admissions));
  return { jobs: [...enqueued] };
};

const keys = ['secret', 'publishable', 'user'] as const satisfies readonly KeyHolder[];

/** Jobs that run a function later, in the background. */
export const functionJobEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{function_id}/jobs',
    area,
    summary: 'Enqueue jobs that run a function',
    access: inProject('developer'),
    params: z.object({ project_id: id, function_id: id }),
    rate: 'none',
    bodyLimit: 'function',
    body,
    status: 202,
    response,
    handle: ({ params, body: given, bodyText }, call) =>
      enqueueWith(call, { by: { id: params.function_id }, jobs: jobsOf(given, bodyText), trigger: 'dashboard' }),
  }),
  endpoint({
    method: 'post',
    path: '/api/functions/{slug}/jobs',
    area,
    summary: 'Enqueue jobs that run a function, by key, by user token, or without',
    access: { ...withKey(...keys), evenInactive: true, orPublic: true },
    rate: 'function',
    params: z.object({ slug: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/) }),
    bodyLimit: 'function',
    body,
    status: 202,
    response,
    handle: async ({ params, body: given, bodyText }, call) => {
      if (call.caller.role !== 'service') requireModest(given);
      const caller = functionCaller(call);
      return enqueueWith(call, { by: { slug: params.slug }, jobs: jobsOf(given, bodyText), trigger: 'api', caller });
    },
  }),
];
