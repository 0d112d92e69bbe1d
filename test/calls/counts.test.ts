import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import type { Traffic } from './count-traffic.ts';
import { useCallScene } from './scene.ts';

const scene = useCallScene(test);

const calls = 60;
/**
 * This share of the calls has at most that count. Periodic work falls on the others: on few where a call takes 4 ms, on
 * most on a machine so busy that it takes 100 ms. A write that every call makes is in all of them.
 */
const share = 0.1;

/**
 * The values of today, one call after the other, and one more where it depends on the moment whether two things travel
 * together or a worker looks for a job in vain. Whoever lowers one lowers it here.
 */
const atMost = {
  'writes of the API': 4,
  'writes of the workers': 7,
  'packets from the runner': 1,
  'packets from Redis': 6,
  'packets from PostgreSQL': 4,
  'Redis commands': 6,
  'Redis commands of scripts': 68,
  'SQL statements': 3,
} as const;
type Figure = keyof typeof atMost;

type Kept = 'api' | 'workers' | 'redis';
interface Part {
  readonly of: readonly Kept[];
  readonly begins: string;
}

const parts: Readonly<Record<Figure, Part>> = {
  'writes of the API': { of: ['api'], begins: 'write ' },
  'writes of the workers': { of: ['workers'], begins: 'write ' },
  'packets from the runner': { of: ['workers'], begins: 'read runner' },
  'packets from Redis': { of: ['api', 'workers'], begins: 'read redis' },
  'packets from PostgreSQL': { of: ['api', 'workers'], begins: 'read postgres' },
  'Redis commands': { of: ['redis'], begins: 'command ' },
  'Redis commands of scripts': { of: ['redis'], begins: 'in a script ' },
  'SQL statements': { of: ['api', 'workers'], begins: 'sql ' },
};

/** How often such a thing happened between two of these moments, at that share of all of them. */
const countOf = (traffic: Traffic, begins: string, moments: readonly number[]): number => {
  const counts = moments
    .slice(1)
    .map((end, place) =>
      traffic.filter(([at, what]) => at >= (moments[place] ?? 0) && at < end && what.startsWith(begins)),
    )
    .map(({ length }) => length)
    .toSorted((a, b) => a - b);
  return counts[Math.floor(counts.length * share)] ?? Number.NaN;
};

/** Lists the events by how often they happened, for readers of a failure. */
const listOf = (traffic: Traffic): string => {
  const counts = Map.groupBy(traffic, ([, what]) => what);
  return [...counts]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([what, all]) => `${(all.length / calls).toFixed(2)} × ${what}`)
    .join('\n');
};

test('a call of a function takes no more writes, packets, commands and statements than it did', async (t) => {
  t.timeout(longTestMs);
  const { client, traffic } = scene();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = () => null;');
  const invoke = async (): Promise<number> => {
    const began = performance.timeOrigin + performance.now();
    const { status, body } = await client.invoke(user, project, fn, null);
    t.is(status, 200);
    t.is(body.status, 'success');
    return began;
  };
  for (let warmUp = 0; warmUp < calls; warmUp += 1) await invoke();
  await traffic();
  const moments: number[] = [];
  for (let call = 0; call < calls; call += 1) moments.push(await invoke());
  const seen = await traffic();
  const figures = (Object.keys(parts) as Figure[]).map((figure) => {
    const { of, begins } = parts[figure];
    const own = of.flatMap((kept) => seen[kept]);
    return { figure, own, count: countOf(own, begins, moments) };
  });
  t.log(figures.map(({ figure, count }) => `${figure}: ${count}`).join(', '));
  for (const { figure, own, count } of figures) {
    t.true(count <= atMost[figure], `${figure}: ${count} a call, at most ${atMost[figure]}\n${listOf(own)}`);
  }
});

/** The columns of the table in docs/architecture.md, as they are counted. */
const columns: readonly Figure[] = [
  'writes of the API',
  'writes of the workers',
  'packets from the runner',
  'packets from Redis',
  'packets from PostgreSQL',
];

test('the hops of a call in docs/architecture.md add up to what is counted', (t) => {
  const page = readFileSync(path.join(import.meta.dirname, '../../docs/architecture.md'), 'utf8');
  const hops = [...page.matchAll(/^\| \d+\. .*$/gm)].map(([line]) => line.split('|').slice(2, -1).map(Number));
  t.is(hops.length, 12);
  for (const [place, figure] of columns.entries()) {
    const sum = hops.reduce((all, hop) => all + (hop[place] ?? Number.NaN), 0);
    // The bound has room for one more where it depends on the moment what travels together.
    t.true(
      sum === atMost[figure] || sum === atMost[figure] - 1,
      `${figure}: ${sum} in the table, ${atMost[figure]} at most`,
    );
  }
});
