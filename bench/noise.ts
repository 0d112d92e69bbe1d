import type { Benchmark, Row } from './harness.ts';
import type { AbuseName } from './noise/abuses/all.ts';
import { type NoiseOptions, measureNoise } from './noise/measure.ts';
import { rowOf } from './noise/verdict.ts';
import { type Victim, victims } from './noise/shapes.ts';

export type { NoiseOptions };

const isVictim = (name: string): name is Victim => (victims as readonly string[]).includes(name);

/**
 * The columns that were asked for, separated by commas; all when nothing was said.
 * @throws {Error} naming those that there are
 */
export const victimsBy = (names: string | undefined): readonly Victim[] => {
  const requested = names?.split(',') ?? victims;
  if (requested.every(isVictim)) return victims.filter((victim) => requested.includes(victim));
  throw new Error(`--victims takes some of: ${victims.join(',')}`);
};

const titles: Readonly<Record<AbuseName, string>> = {
  'queue-flood': 'queue flood, 10,000 waiting',
  'cpu-loops': 'CPU loops in every function slot',
  'log-flood': 'log flood',
  'held-bodies': '6 MB bodies held back',
  'slow-readers': 'slow readers of 12 MB',
  'bulk-inserts': '20,000-row inserts with a webhook',
  'hanging-webhooks': 'hanging webhooks',
  'console-sql': 'heavy SQL in the console',
  'data-sql': 'heavy SQL by the data API',
  'compile-flood': 'compile flood',
  'giant-answers': 'giant answers of its own models',
  'endless-answers': 'endless answers of its own models',
  'vector-upserts': 'vector upserts',
  'deleted-flood': 'deletion of flooded projects',
};

const isAbuse = (name: string): name is AbuseName => Object.hasOwn(titles, name);

/**
 * Measures the effect on a quiet project of a Free project of another account that does its worst: a row for each
 * abuse.
 */
export const noiseBenchmarks = (options: NoiseOptions): readonly Benchmark[] =>
  Object.keys(titles)
    .filter(isAbuse)
    .map((abuse) => ({
      name: `noise/${abuse}`,
      run: async (bench): Promise<readonly Row[]> => {
        const row = rowOf(titles[abuse], await measureNoise(bench, abuse, options));
        bench.print(`  ${row.line?.cells.join(' | ')}`);
        return [row];
      },
    }));
