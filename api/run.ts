import { actingAs } from '#domain/audit/actor.ts';
import { type IdempotencyKey, claimKey, findAnswer, keepAnswer, releaseKey } from '#domain/idempotency/idempotency.ts';
import type { AcceptedJob, JobRequest } from '#domain/jobs/jobs.ts';
import type { Tx } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { BaseCall } from './call.ts';
import type { DirectWork, Endpoint, Input, JobWork } from './endpoint.ts';
import type { Preferences } from './http/prefer.ts';
import { type Reply, jsonReply, jsonType, replyOf, withoutSecrets } from './http/reply.ts';

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
      if (key && !(await claimKey(tx, key))) {
        await endpoint.beforeReplay(input, call.within(tx));
        return replay(tx, key, call);
      }
      const reply = replyOf(endpoint, await work.handle({ ...input, prepared, key }, call.within(tx)));
      if (key) await keepAnswer(tx, key, reply.status, withoutSecrets(endpoint, reply));
      return reply;
    },
    actingAs(call.actor, endpoint.auditAction),
  );

/** Runs an endpoint that answers by itself; the change, its audit entry and the kept answer are one transaction. */
export const runDirect = async (of: Work<DirectWork>): Promise<Reply> => {
  const { endpoint, work, input, call, key } = of;
  const prepared = await work.prepare(input, call);
  if (!work.transaction) return replyOf(endpoint, await work.handle({ ...input, prepared, key }, call));
  if (key === undefined) return inTransaction(of, prepared);
  // In this process they run one after the other, so that they do not each hold a connection while they wait; between
  // processes the database makes them wait.
  return call.deps.serialize(`${key.scope} ${key.key}`, () => inTransaction(of, prepared));
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
  undo: async (tx) => {
    await releaseKey(tx, key);
    await request.undo?.(tx);
  },
});

interface StartedRun extends AcceptedJob {
  readonly projectId: string;
  readonly replayed: boolean;
}

/** The job that an earlier request with this key began, if there is one. */
const join = async (call: BaseCall, key: IdempotencyKey, waitMs: number): Promise<StartedRun | undefined> => {
  const answer = await findAnswer(call.deps.db, key);
  if (!answer?.job_id || answer.project_id === null) return undefined;
  const { job_id: jobId, project_id: projectId } = answer;
  return { ...(await call.deps.jobs.join(projectId, jobId, waitMs)), projectId, replayed: true };
};

const accept = async ({ work, input, call, key }: Work<JobWork>, waitMs: number): Promise<StartedRun> => {
  const request = { startedBy: call.starter, ...(await work.request(input, call)) };
  const accepted = await call.deps.jobs.run(key ? withKeyClaimed(request, key) : request, waitMs);
  return { ...accepted, projectId: request.projectId, replayed: false };
};

/** One job, whatever the number of requests with the same key: the first accepts it, the others wait for its end. */
const begin = async (of: Work<JobWork>, waitMs: number): Promise<StartedRun> => {
  const { endpoint, input, call, key } = of;
  if (key === undefined) return accept(of, waitMs);
  const joined = async (): Promise<StartedRun | undefined> => {
    await endpoint.beforeReplay(input, call);
    return join(call, key, waitMs);
  };
  const known = await joined();
  if (known) return known;
  try {
    return await accept(of, waitMs);
  } catch (error) {
    if (!(error instanceof KeyIsTaken)) throw error;
    const winner = await joined();
    if (winner) return winner;
    throw new ServiceError('conflict', 'The job of an earlier request with this Idempotency-Key is gone.', {
      hint: 'Use a new key.',
    });
  }
};

/** Runs an endpoint whose work is a job: waits as the caller prefers, answers 202 when the job takes longer. */
export const runJob = async (of: Work<JobWork>, prefer: Preferences): Promise<Reply> => {
  const { endpoint, work, input, call } = of;
  if (work.streamed !== null && call.wantsEvents) return replyOf(endpoint, await work.streamed(input, call));
  const { id, outcome, stream, projectId, replayed } = await begin(of, prefer.waitMs);
  if (replayed) noteReplay(call);
  await work.accepted({ jobId: id, projectId, replayed }, call);
  if (prefer.applied !== '') call.setHeader('Preference-Applied', prefer.applied);
  if (stream !== undefined) return replyOf(endpoint, work.answerStream(stream, call));
  // A caller that chose not to wait gets the same answer on a replay, when the job may have ended long ago.
  if (outcome === null || prefer.waitMs === 0) {
    call.setHeader('Location', jobPath(endpoint, projectId, id));
    return jsonReply(202, { job_id: id, status: 'queued' });
  }
  return replyOf(endpoint, await work.answer({ jobId: id, projectId, outcome, replayed }, call));
};
