import { listDeliveries } from '#domain/webhooks/deliveries.ts';
import { type Benchmark, digits, ms, percentile, spread } from '../harness.ts';
import { healthyProjects, latenciesAt } from './latency.ts';
import { type Scene, onScene } from './scene.ts';

const healthy = 10;
const load = { rate: 100, seconds: 15 } as const;
const lists = 100;

/** So many deliveries of one webhook wait; its receiver hangs. */
const pileUp = async ({ db }: Scene, projectId: string, webhookId: string, count: number): Promise<void> => {
  const step = 50_000;
  for (let n = 0; n < count; n += step) {
    await db.query(
      `with events as (
         insert into outbox_events (project_id, event, data, fanned_at)
         select $1, 'auth.signup', '{"id":1}', now() from generate_series(1, $3::int) returning id)
       insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, next_attempt_at)
       select $2, $1, id, 'auth.signup', 'pending', now() from events`,
      [projectId, webhookId, Math.min(step, count - n)],
    );
  }
  await db.query('analyze webhook_deliveries');
  await db.query('update webhook_throttles set next_at = now() where webhook_id = $1', [webhookId]);
};

const listTimes = async ({ db }: Scene, webhookId: string): Promise<number[]> => {
  const times: number[] = [];
  for (let n = 0; n < lists; n += 1) {
    const began = performance.now();
    const status = n % 2 === 0 ? 'pending' : undefined;
    await listDeliveries(db, webhookId, { status, event: undefined, since: undefined, limit: 50, offset: 0 });
    times.push(performance.now() - began);
  }
  return times;
};

export const backlog = (count: number): Benchmark => ({
  name: 'webhooks/backlog',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const ids = await healthyProjects(scene, healthy);
      const full = await scene.addProject();
      const webhookId = await scene.addWebhook(full, `${scene.url}/hang`);
      await scene.startWorker();
      await latenciesAt(scene, ids, { ...load, seconds: 3 });
      const alone = await latenciesAt(scene, ids, load);
      await pileUp(scene, full, webhookId, count);
      const beside = await latenciesAt(scene, ids, load);
      const times = await listTimes(scene, webhookId);
      return [
        {
          name: `webhooks: a page of deliveries of a webhook with ${digits(count)} that wait, p99`,
          ours: ms(percentile(times, 0.99)),
          target: { of: 'ours', atMost: 50 },
          notes: [`${spread(times)} ms; half of the lists ask for those that wait`],
        },
        {
          name: `webhooks: p99 of other projects while ${digits(count)} deliveries of one wait`,
          ours: ms(percentile(beside, 0.99)),
          floor: ms(percentile(alone, 0.99)),
          ratio: percentile(beside, 0.99) / percentile(alone, 0.99),
          target: { of: 'ratio', atMost: 2 },
          notes: [`${load.rate} events/s; before: ${spread(alone)} ms; beside: ${spread(beside)} ms`],
        },
      ];
    }),
});
