import { type Benchmark, type Row, byTurns, median, perSecond, range } from '../harness.ts';
import { type Child, sharedNow } from '../jobs/child.ts';
import { requiredIn } from '../settings.ts';
import type { LoopPlan } from './loop.ts';
import { type Scene, emit, onScene } from './scene.ts';

const projects = 10;
const webhooksEach = 4;
const eventsEach = 250;
const count = projects * webhooksEach * eventsEach;
const rounds = 3;
/** As many as the worker has under way. */
const atOnce = 512;

/** Deliveries a second: signed, answered, recorded, from the first event to the last answer. */
const deliver = async ({ receiver, ...scene }: Scene, ids: readonly string[]): Promise<number> => {
  const before = await receiver.ask<number>('count');
  const all = receiver.ask<number>('received', before + count);
  const began = sharedNow();
  await Promise.all(ids.map((id) => emit({ ...scene, receiver }, id, eventsEach)));
  const ended = await all;
  await settled(scene);
  return count / ((ended - began) / 1000);
};

/** The last records are written after the last answer; the other side must not pay for them. */
const settled = async ({ db }: Pick<Scene, 'db'>): Promise<void> => {
  const [row] = await db.query<{ open: number }>(
    `select count(*) as open from webhook_deliveries where job_id is not null or next_attempt_at is not null`,
  );
  if ((row?.open ?? 0) > 0) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    await settled({ db });
  }
};

const loop = async (scene: Scene, child: Child, way: 'bare' | 'bullmq'): Promise<number> => {
  const { bench, url, prefix } = scene;
  const plan: LoopPlan = { url, count, atOnce, redisUrl: requiredIn(bench.env, 'REDIS_URL'), prefix };
  const began = sharedNow();
  await child.ask(way, plan);
  return count / ((sharedNow() - began) / 1000);
};

const rowsOf = (
  alone: readonly { readonly ours: number; readonly floor: number }[],
  bullmq: readonly { readonly ours: number; readonly floor: number }[],
): readonly Row[] => {
  const ours = [...alone, ...bullmq].map((pair) => pair.ours);
  return [
    {
      name: 'webhooks: deliveries of one worker, signed and recorded',
      ours: perSecond(median(ours)),
      target: { of: 'ours', atLeast: 1000 },
      notes: [`${range(ours)}; ${projects} projects with ${webhooksEach} webhooks each, ${atOnce} at a time`],
    },
    {
      name: 'webhooks: deliveries against a bare loop of POST and HMAC that records nothing',
      ours: perSecond(median(alone.map((pair) => pair.ours))),
      floor: perSecond(median(alone.map((pair) => pair.floor))),
      ratio: median(alone.map((pair) => pair.ours / pair.floor)),
      target: { of: 'ratio', atLeast: 0.15 },
      notes: [`the loop: ${range(alone.map((pair) => pair.floor))}`],
    },
    {
      name: 'webhooks: deliveries against BullMQ with that loop as its processor',
      ours: perSecond(median(bullmq.map((pair) => pair.ours))),
      floor: perSecond(median(bullmq.map((pair) => pair.floor))),
      ratio: median(bullmq.map((pair) => pair.ours / pair.floor)),
      target: { of: 'ratio', atLeast: 0.4 },
      notes: [`BullMQ: ${range(bullmq.map((pair) => pair.floor))}`],
    },
  ];
};

export const throughput: Benchmark = {
  name: 'webhooks/throughput',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const ids = await Promise.all(Array.from({ length: projects }, scene.addProject));
      for (const id of ids) {
        for (let n = 0; n < webhooksEach; n += 1) await scene.addWebhook(id, `${scene.url}/in`);
      }
      await scene.startWorker();
      const child = scene.startLoop();
      const ours = (): Promise<number> => deliver(scene, ids);
      await ours();
      const alone = await byTurns(rounds, ours, () => loop(scene, child, 'bare'));
      const bullmq = await byTurns(rounds, ours, () => loop(scene, child, 'bullmq'));
      return rowsOf(alone, bullmq);
    }),
};
