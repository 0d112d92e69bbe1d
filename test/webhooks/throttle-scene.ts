import { fanOut } from '#domain/webhooks/fan-out.ts';
import { runBatch } from '#domain/webhooks/scheduler.ts';
import { recordTries } from '#domain/webhooks/attempts.ts';
import { memoryLog, type usePlatform } from '#test/support/platform.ts';
import { type BareProject, addProject, addWebhook, emit } from './pipeline-scene.ts';

/** A try of a delivery that is under way. */
export interface UnderWay {
  readonly id: string;
  readonly job_id: string;
  readonly webhook_id: string;
}

/** Nobody is called. */
export const url = 'http://127.0.0.1:9/';

export const many = (count: number): string[] => Array.from({ length: count }, () => '{}');

/** Throttles without a worker: what begins and how it ends is the test's. */
export const throttleScene = (platform: ReturnType<typeof usePlatform>) => {
  const pumpThese = (webhookIds: readonly string[], slowAtOnce?: number) =>
    runBatch(
      {
        db: platform().db,
        log: memoryLog().log,
        gate: { admit: () => Promise.resolve({ isAccepted: true }) as never },
        ...(slowAtOnce !== undefined && { slowAtOnce }),
      },
      webhookIds,
    );

  const underWay = ({ id }: Pick<BareProject, 'id'>): Promise<UnderWay[]> =>
    platform().db.query<UnderWay>(
      'select id, job_id, webhook_id from webhook_deliveries where project_id = $1 and job_id is not null',
      [id],
    );

  const end = async (
    { id, job_id: jobId, webhook_id: webhookId }: UnderWay,
    { error = null as string | null, ms = 5 } = {},
  ): Promise<ReadonlySet<string>> => {
    const { version } = (
      await platform().db.query<{ version: number }>('select version from webhooks where id = $1', [webhookId])
    )[0] ?? { version: null };
    const tried = {
      deliveryId: id,
      jobId,
      webhookId,
      version,
      statusCode: error === null ? 200 : null,
      responseTimeMs: ms,
      requestHeaders: '{}',
      responseBody: null,
      error,
      notBefore: null,
      isGone: false,
    };
    return (await platform().db.transaction((tx) => recordTries(tx, [tried]))).lockedElsewhere;
  };

  const withBacklog = async (plan: string, count: number, quick = false) => {
    const project = await addProject(platform(), plan);
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) ids.push((await addWebhook(platform(), project, { url, quick })).id);
    await emit(platform(), project.id, 'auth.login', many(20));
    await fanOut(platform().db);
    return { project, ids };
  };

  /** A webhook with a delivery that waits, of which its throttle says nothing. */
  const withForgotten = async () => {
    const { db } = platform();
    const project = await addProject(platform(), 'pro');
    const { id } = await addWebhook(platform(), project, { url });
    await emit(platform(), project.id, 'auth.login');
    await fanOut(db);
    await db.query('update webhook_throttles set next_at = null where webhook_id = $1', [id]);
    return { project, id };
  };

  return { pumpThese, underWay, end, withBacklog, withForgotten };
};
