import { type IdempotencyKey, claimKey, findAnswer, releaseKey } from '#domain/idempotency/store.ts';
import type { JobRequest, Jobs } from '#domain/jobs/jobs.ts';
import { type Ping, type Sent, deletePing, findSent, insertPing, newPing } from '#domain/webhooks/deliveries.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import type { Checked } from './check.ts';

/** As a caller waits for any job. */
const waitMs = 30_000;

interface TestDeps {
  readonly db: Queryable;
  readonly jobs: Pick<Jobs, 'run' | 'join'>;
}

const verdictOf = (sent: Sent | undefined, tookMs: number): Checked => {
  const ok = sent?.status === 'success';
  const pending = sent === undefined || sent.status === 'pending';
  return {
    ok,
    latencyMs: sent?.response_time_ms ?? Math.round(tookMs),
    error: ok ? null : pending ? 'The message has not been sent yet.' : (sent.error ?? 'The message was not taken.'),
  };
};

const deliveryOf = (result: string): string => webhookDeliver.result.parse(JSON.parse(result)).delivery_id;

/**
 * Returns the result of the test that an earlier request with this key started; undefined when there was none.
 * @throws {ServiceError} `idempotency_mismatch`
 */
export const findChatTest = async ({ db, jobs }: TestDeps, key: IdempotencyKey): Promise<Checked | undefined> => {
  const began = performance.now();
  const { job_id: jobId, project_id: projectId } = (await findAnswer(db, key)) ?? {};
  if (!jobId || !projectId) return undefined;
  const { outcome } = await jobs.join(projectId, jobId, waitMs);
  const sent = outcome?.result ? await findSent(db, projectId, deliveryOf(outcome.result)) : undefined;
  return verdictOf(sent, performance.now() - began);
};

class KeyIsTaken extends Error {
  override readonly name = 'KeyIsTaken';
}

export interface ChatTest {
  readonly projectId: string;
  readonly webhookId: string;
  readonly requestId: string;
  readonly key: IdempotencyKey | undefined;
}

const requestOf = (ping: Ping, { requestId, key }: ChatTest): JobRequest<typeof webhookDeliver> => ({
  job: webhookDeliver,
  projectId: ping.projectId,
  requestId,
  data: { delivery_id: ping.deliveryId },
  alongside: async (tx, jobId) => {
    if (key && !(await claimKey(tx, key, jobId))) throw new KeyIsTaken('another request holds the key');
    await insertPing(tx, ping, jobId);
  },
  undo: async (tx) => {
    if (key) await releaseKey(tx, key);
    await deletePing(tx, ping);
  },
});

const testOfWinner = async (deps: TestDeps, key: IdempotencyKey): Promise<Checked> => {
  const found = await findChatTest(deps, key);
  if (found) return found;
  throw new ServiceError('conflict', 'The test of an earlier request with this Idempotency-Key is gone.', {
    hint: 'Use a new key.',
  });
};

/** Sends a chat a message that says it is a test, by the way of all others, and waits for what became of it. */
export const sendChatTest = async (
  deps: TestDeps,
  test: ChatTest,
): Promise<{ readonly checked: Checked; readonly replayed: boolean }> => {
  const ping = newPing(test.projectId, test.webhookId);
  const began = performance.now();
  try {
    await deps.jobs.run(requestOf(ping, test), waitMs);
  } catch (error) {
    if (!(error instanceof KeyIsTaken && test.key)) throw error;
    return { checked: await testOfWinner(deps, test.key), replayed: true };
  }
  const sent = await findSent(deps.db, test.projectId, ping.deliveryId);
  return { checked: verdictOf(sent, performance.now() - began), replayed: false };
};
