import { actingAs } from '#domain/audit/actor.ts';
import { type IdempotencyKey, claimKey, findAnswer, keepAnswer } from '#domain/idempotency/store.ts';
import type { AcceptedJob, JobRequest } from '#domain/jobs/jobs.ts';
import type { Tx } from '#lib/control-db.ts';
import type { BaseCall } from './call.ts';
import type { DirectWork, Endpoint, Input, JobWork } from './endpoint.ts';
import { oneAtATime } from './idempotency.ts';
import type { Preferences } from './prefer.ts';
import { type Reply, jsonReply, jsonType, replyOf, withoutSecrets } from './reply.ts';

type AnyInput = Input<never, never, never>;

export interface Work<Kind extends DirectWork | JobWork> {
  readonly endpoint: Endpoint;
  readonly work: Kind;
  readonly input: AnyInput;
  readonly call: BaseCall;
  readonly key: IdempotencyKey | undefined;
}

const noteReplay = (call: BaseCall): void => call.setHeader('Idempotent-Replayed', 'true');

const replay = async (tx: Tx, key: IdempotencyKey, call: BaseCall): Promise<Reply> => {
  const answer = await findAnswer(tx, key);
  noteReplay(call);
  const body = answer?.body ?? null;
  return { status: answer?.status ?? 200, type: body === null ? undefined : jsonType, body };
};

const inTransaction = async (
  { endpoint, work, input, call, key }: Work<DirectWork>,
  prepared: unknown,
): Promise<Reply> =>
  call.deps.db.transaction(
    async (tx) => {
      if (key && !(await claimKey(tx, key))) return replay(tx, key, call);
      const reply = replyOf(endpoint, await work.handle({ ...input, prepared }, { ...call, db: tx }));
      if (key) await keepAnswer(tx, key, reply.status, withoutSecrets(endpoint, reply));
      return reply;
    },
    actingAs(call.actor, endpoint.auditAction),
  );

/** Runs an endpoint that answers by itself; the change, its audit entry and the kept answer are one transaction. */
export const runDirect = async (of: Work<DirectWork>): Promise<Reply> => {
  const { endpoint, work, input, call, key } = of;
  const prepared = await work.prepare(input, call);
  if (!work.transaction) return replyOf(endpoint, await work.handle({ ...input, prepared }, call));
  return key ? oneAtATime(key, () => inTransaction(of, prepared)) : inTransaction(of, prepared);
};

/** Where a caller of this kind finds its job. */
const jobPath = (endpoint: Endpoint, projectId: string, jobId: string): string =>
  endpoint.access.kind === 'key' ? `/api/jobs/${jobId}` : `/projects/${projectId}/jobs/${jobId}`;

class KeyIsTaken extends Error {
  override readonly name = 'KeyIsTaken';
}

const withKeyClaimed = (request: JobRequest, key: IdempotencyKey): JobRequest => ({
  ...request,
  alongside: async (tx, jobId) => {
    if (!(await claimKey(tx, key, jobId))) throw new KeyIsTaken('another request holds the key');
    await request.alongside?.(tx, jobId);
  },
});

interface Begun extends AcceptedJob {
  readonly projectId: string;
  readonly replayed: boolean;
}

const join = async ({ call, key }: Work<JobWork>, request: JobRequest, waitMs: number): Promise<Begun | undefined> => {
  const answer = key && (await findAnswer(call.deps.db, key));
  if (!answer?.job_id) return undefined;
  const projectId = answer.project_id ?? request.projectId;
  return { ...(await call.deps.jobs.join(projectId, answer.job_id, waitMs)), projectId, replayed: true };
};

/** One job, whatever the number of requests with the same key: the first accepts it, the others wait for its end. */
const begin = async (of: Work<JobWork>, waitMs: number): Promise<Begun> => {
  const { work, input, call, key } = of;
  const request = await work.request(input, call);
  const { projectId } = request;
  if (key === undefined) return { ...(await call.deps.jobs.run(request, waitMs)), projectId, replayed: false };
  const known = await join(of, request, waitMs);
  if (known) return known;
  try {
    return { ...(await call.deps.jobs.run(withKeyClaimed(request, key), waitMs)), projectId, replayed: false };
  } catch (error) {
    const winner = error instanceof KeyIsTaken ? await join(of, request, waitMs) : undefined;
    if (winner) return winner;
    throw error;
  }
};

/** Runs an endpoint whose work is a job: waits as the caller prefers, answers 202 when the job takes longer. */
export const runJob = async (of: Work<JobWork>, prefer: Preferences): Promise<Reply> => {
  const { endpoint, work, call } = of;
  const { id, outcome, projectId, replayed } = await begin(of, prefer.waitMs);
  if (replayed) noteReplay(call);
  if (prefer.applied !== '') call.setHeader('Preference-Applied', prefer.applied);
  if (outcome === null) {
    call.setHeader('Location', jobPath(endpoint, projectId, id));
    return jsonReply(202, { job_id: id, status: 'queued' });
  }
  return replyOf(endpoint, await work.answer({ jobId: id, projectId, outcome, replayed }, call));
};
