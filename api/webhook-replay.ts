import { type IdempotencyKey, claimKey, findAnswer, keepAnswer } from '#domain/idempotency/idempotency.ts';
import { type Replay, replay } from '#domain/webhooks/replay.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { InProject } from './access.ts';
import type { Call } from './call.ts';

export interface ReplayRequest {
  readonly webhookId: string;
  readonly replay: Replay;
  readonly key: IdempotencyKey | undefined;
}

/** A replay with a key holds a connection while its steps need another: a quarter of them may. */
const maxAtOnce = (connections: number): number => Math.max(1, Math.floor(connections / 4));

/** One of so many queues, the same for all replays of a project. */
const queueOf = (projectId: string, queues: number): string =>
  `replays ${Number.parseInt(projectId.slice(-6), 16) % queues}`;

const status = 202;

const answered = (body: string | null | undefined): number => {
  const { replayed } = JSON.parse(body ?? '{}') as { replayed?: number };
  if (replayed === undefined) throw new Error('a kept answer of a replay has no number');
  return replayed;
};

/** A transaction of its own holds the key until all steps are done: a second request with it waits. */
const replayWithKey = (
  { deps, setHeader }: Call<InProject>,
  key: IdempotencyKey,
  work: (guard: Queryable) => Promise<number>,
): Promise<number> =>
  deps.db.transaction(async (tx) => {
    if (!(await claimKey(tx, key))) {
      const answer = await findAnswer(tx, key);
      setHeader('Idempotent-Replayed', 'true');
      return answered(answer?.body);
    }
    const replayed = await work(tx);
    await keepAnswer(tx, key, status, JSON.stringify({ replayed }));
    return replayed;
  });

/**
 * Replays in steps that are transactions of their own; in this process one replay of a project at a time. Under one key
 * it is done once; an interrupted one continues when it is requested again.
 * @returns how many deliveries are tried anew
 * @throws {ServiceError} `not_found`, `conflict`, `idempotency_mismatch`
 */
export const replayOnce = (
  call: Call<InProject>,
  { webhookId, replay: request, key }: ReplayRequest,
): Promise<number> => {
  const { deps, project, disconnection } = call;
  const work = (guard?: Queryable): Promise<number> =>
    replay(deps.db, { projectId: project.id, webhookId }, request, guard);
  return deps.serialize(`replays of ${project.id}`, () => {
    if (disconnection.aborted)
      throw new ServiceError('conflict', 'The client disconnected before the replay could start.');
    if (key === undefined) return work();
    const queue = queueOf(project.id, maxAtOnce(deps.config.PLINTH_DATABASE_POOL));
    return deps.serialize(queue, () => replayWithKey(call, key, work));
  });
};
