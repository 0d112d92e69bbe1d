import { type IdempotencyKey, claimKey, findAnswer, releaseKey } from '#domain/idempotency/idempotency.ts';
import type { JobRequest, Jobs } from '#domain/jobs/jobs.ts';
import type { Project } from '#domain/projects/store.ts';
import { type Ping, type Sent, deletePing, findSent, insertPing, newPing } from '#domain/webhooks/deliveries.ts';
import { makeSecret, sealSecret, sealUrl } from '#domain/webhooks/secrets.ts';
import { markWebhookDeleted, reopenThrottle } from '#domain/webhooks/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import type { Checked } from './check.ts';
import type { ChatProvider, ConfigOf } from './providers.ts';

/**
 * The rates that they accept: Slack one message a second (docs.slack.dev, "Rate limits"), Discord 30 a minute and
 * channel with bursts (a 429 tells when it was too much).
 */
const ratePerSecond: Readonly<Record<ChatProvider, number>> = { slack: 1, discord: 2 };

interface ChatOf {
  readonly project: Pick<Project, 'id'>;
  readonly kind: ChatProvider;
}

/** The webhook of a project's chat. */
export const findChat = (db: Queryable, { project, kind }: ChatOf): Promise<{ id: string } | undefined> =>
  maybeOne(
    db.query<{ id: string }>('select id from webhooks where project_id = $1 and kind = $2 and deleted_at is null', [
      project.id,
      kind,
    ]),
  );

/** Its throttle is locked first, as by deliveries. */
const lockChat = async (db: Queryable, of: ChatOf): Promise<{ id: string } | undefined> => {
  const present = await findChat(db, of);
  if (present === undefined) return undefined;
  await db.query('select from webhook_throttles where webhook_id = $1 for no key update', [present.id]);
  return present;
};

const insertChat = async (
  db: Queryable,
  { project, kind }: ChatOf,
  { sealer, config, isActive }: ChatIntegrationRequest,
): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into webhooks (id, project_id, kind, url_sealed, events, secret_sealed, rate_per_second, is_active)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      id,
      project.id,
      kind,
      sealUrl(sealer, id, config.webhook_url),
      config.events,
      sealSecret(sealer, id, makeSecret()),
      ratePerSecond[kind],
      isActive,
    ],
  );
  return id;
};

interface ChatIntegrationRequest {
  readonly sealer: Sealer;
  readonly config: ConfigOf<ChatProvider>;
  readonly isActive: boolean;
}

/**
 * Makes the webhook of a chat what its integration says, within the caller's transaction.
 * @returns its id: when the change is committed, the project's subscriptions are to be set and its throttle pumped
 */
export const saveChat = async (db: Queryable, of: ChatOf, request: ChatIntegrationRequest): Promise<string> => {
  const present = await lockChat(db, of);
  if (present === undefined) return insertChat(db, of, request);
  const { sealer, config, isActive } = request;
  await db.query(
    `update webhooks set url_sealed = $2, events = $3, is_active = $4, disabled_reason = null, updated_at = now()
     where id = $1`,
    [present.id, sealUrl(sealer, present.id, config.webhook_url), config.events, isActive],
  );
  // Earlier failures say nothing of a new address, nor of one that was activated again.
  await reopenThrottle(db, present.id);
  return present.id;
};

/** @returns the webhook's id; undefined when there is none */
export const setChatActive = async (db: Queryable, of: ChatOf, isActive: boolean): Promise<string | undefined> => {
  const present = await lockChat(db, of);
  if (present === undefined) return undefined;
  await db.query('update webhooks set is_active = $2, disabled_reason = null, updated_at = now() where id = $1', [
    present.id,
    isActive,
  ]);
  if (isActive) await reopenThrottle(db, present.id);
  return present.id;
};

/** Its deliveries go in steps, as those of any webhook. */
export const removeChat = async (db: Queryable, of: ChatOf): Promise<void> => {
  const present = await lockChat(db, of);
  if (present !== undefined) await markWebhookDeleted(db, present.id);
};

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

interface ChatTest {
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
