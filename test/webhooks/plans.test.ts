import test from 'ava';
import { byIndex } from '#domain/webhooks/store.ts';
import { fanOut } from '#domain/webhooks/fan-out.ts';
import { claimDeliveries, lockThrottles, scheduleThrottles } from '#domain/webhooks/scheduler.ts';
import { loadTries } from '#domain/webhooks/attempts.ts';
import type { Tx } from '#lib/control-db.ts';
import { usePlatform } from '#test/support/platform.ts';
import { many, throttleScene, url } from './throttle-scene.ts';
import { addProject, addWebhook, emit } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });
const { underWay } = throttleScene(platform);

/** Rows of the large tables that this transaction has read. */
const readBy = async (tx: Tx): Promise<{ scanned: number; fetched: number }> => {
  const [row] = await tx.query<{ scanned: number; fetched: number }>(
    `select sum(seq_tup_read)::int as scanned, sum(idx_tup_fetch)::int as fetched from pg_stat_xact_user_tables
     where relname in ('webhook_deliveries', 'outbox_events')`,
  );
  return row ?? { scanned: -1, fetched: -1 };
};

const waiting = 20_000;

const pileUp = async (projectId: string, webhookId: string): Promise<void> => {
  const { db } = platform();
  await db.query(
    `with events as (
       insert into outbox_events (project_id, event, data, fanned_at)
       select $1, 'auth.login', '{}', now() from generate_series(1, ${waiting}) returning id)
     insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, next_attempt_at)
     select $2, $1, id, 'auth.login', 'pending', now() from events`,
    [projectId, webhookId],
  );
  await db.query('analyze webhook_deliveries, outbox_events');
};

test('whoever else has thousands of deliveries that wait, nobody reads them', async (t) => {
  const { db } = platform();
  const [busy, quiet] = [await addProject(platform(), 'pro'), await addProject(platform(), 'pro')];
  const full = await addWebhook(platform(), busy, { url });
  const { id } = await addWebhook(platform(), quiet, { url });
  /** An event of the quiet project is passed on, has its turn and is loaded. */
  const once = async () => {
    await emit(platform(), quiet.id, 'auth.login', many(1));
    return db.transaction(async (tx) => {
      await fanOut(tx);
      const { throttles } = await lockThrottles(tx, [id, full.id]);
      const turns = await claimDeliveries(
        tx,
        throttles.map((throttle) => throttle.webhook_id),
      );
      await scheduleThrottles(tx, turns);
      const ours = turns.jobs.find((job) => job.projectId === quiet.id);
      const deliveryId = /"delivery_id":"([^"]+)"/.exec(ours?.data ?? '')?.[1] ?? '';
      await loadTries(tx, [{ deliveryId, jobId: ours?.id ?? '' }]);
      return readBy(tx);
    }, byIndex);
  };
  // As often as it takes until plans are kept.
  for (let n = 0; n < 8; n += 1) await once();
  await pileUp(busy.id, full.id);
  for (let n = 0; n < 2; n += 1) {
    const { scanned, fetched } = await once();
    t.is(scanned, 0);
    t.true(fetched < 500, `${fetched} rows were fetched`);
  }
  t.true((await underWay(quiet)).length >= 10);
});
