import type { Plan } from '#domain/projects/store.ts';
import { type Bench, type Benchmark, type Row, digits, ms, percentile, spread } from '../harness.ts';
import { type Scene, emit, onScene } from './scene.ts';
import { healthyProjects, latenciesAt } from './latency.ts';

const healthy = 20;
const load = { rate: 200, seconds: 15 } as const;
const ways = ['hang', 'drip', 'reset', 'fail', 'away'] as const;
const eventsEach = 2000;
const hangingEvents = 50;
/** Beside receivers that hang, some events of a quiet project; so many that a percentile is more than one of them. */
const quiet = { rate: 10, seconds: 60 } as const;

export const hostile: Benchmark = {
  name: 'webhooks/hostile',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const ids = await healthyProjects(scene, healthy);
      const others = await Promise.all(ways.map(scene.addProject));
      for (const [n, id] of others.entries()) await scene.addWebhook(id, `${scene.url}/${ways[n]}`);
      await scene.startWorker();
      await latenciesAt(scene, ids, { ...load, seconds: 3 });
      const alone = await latenciesAt(scene, ids, load);
      await Promise.all(others.map((id) => emit(scene, id, eventsEach)));
      const beside = await latenciesAt(scene, ids, load);
      return [
        {
          name: 'webhooks: p99 of others beside receivers that hang, drip, reset, fail and redirect',
          ours: ms(percentile(beside, 0.99)),
          floor: ms(percentile(alone, 0.99)),
          ratio: percentile(beside, 0.99) / percentile(alone, 0.99),
          target: { of: 'ratio', atMost: 2 },
          notes: [
            `${load.rate} events/s of ${healthy} projects; alone: ${spread(alone)} ms; beside: ${spread(beside)} ms`,
            `${ways.length} projects with ${digits(eventsEach)} deliveries each to a receiver of that kind`,
          ],
        },
      ];
    }),
};

interface ManyWebhooks {
  readonly name: string;
  readonly plan: Plan;
  readonly projects: number;
  readonly webhooksEach: number;
}

const crowds: readonly ManyWebhooks[] = [
  { name: '20 free projects with 10 webhooks each that hang', plan: 'free', projects: 20, webhooksEach: 10 },
  { name: 'an enterprise project with 40 webhooks that hang', plan: 'enterprise', projects: 1, webhooksEach: 40 },
];

const addManyWebhooks = async (scene: Scene, { plan, projects, webhooksEach }: ManyWebhooks): Promise<string[]> => {
  const ids = await Promise.all(Array.from({ length: projects }, () => scene.addProjectOf(plan)));
  for (const id of ids) {
    for (let n = 0; n < webhooksEach; n += 1) await scene.addWebhook(id, `${scene.url}/hang`);
  }
  return ids;
};

const beside = (bench: Bench, many: ManyWebhooks): Promise<Row> =>
  onScene(bench, async (scene) => {
    const ids = await healthyProjects(scene, 1);
    const others = await addManyWebhooks(scene, many);
    await scene.startWorker();
    await latenciesAt(scene, ids, { ...quiet, seconds: 3 });
    const alone = await latenciesAt(scene, ids, quiet);
    await Promise.all(others.map((id) => emit(scene, id, hangingEvents)));
    const among = await latenciesAt(scene, ids, quiet);
    return {
      name: `webhooks: p99 of a quiet project beside ${many.name}`,
      ours: ms(percentile(among, 0.99)),
      floor: ms(percentile(alone, 0.99)),
      ratio: percentile(among, 0.99) / percentile(alone, 0.99),
      target: { of: 'ratio', atMost: 2 },
      notes: [
        `${quiet.rate} events/s for ${quiet.seconds} s; alone: ${spread(alone)} ms; beside: ${spread(among)} ms`,
        `${hangingEvents} deliveries wait for each webhook that hangs`,
      ],
    };
  });

/** Measures the effect on others of receivers that take the connection and never answer. */
export const hanging: Benchmark = {
  name: 'webhooks/hanging',
  run: async (bench) => {
    const rows: Row[] = [];
    for (const many of crowds) rows.push(await beside(bench, many));
    return rows;
  },
};
