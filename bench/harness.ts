import type { LoadResult } from './load.ts';
import type { Servers } from './servers.ts';

/** The environment of a benchmark. */
export interface Bench {
  /** The checkout. */
  readonly root: string;
  /** The environment of a process of the stack that `npm run bench` made: its databases, its secrets. */
  readonly env: NodeJS.ProcessEnv;
  /** For logs and clones; removed at the end. */
  readonly folder: string;
  /** Starts what a row needs beside the stack, and ends all of it whatever happens. */
  readonly servers: Servers;
  /** Aborted when the run is interrupted. */
  readonly signal: AbortSignal;
  readonly print: (line: string) => void;
}

export interface Quantity {
  readonly value: number;
  readonly unit: string;
}

/** The bound of a figure; `ratio` is ours divided by the floor. */
export interface Target {
  readonly of: 'ours' | 'ratio';
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** One line of the table. */
export interface Row {
  readonly name: string;
  readonly ours: Quantity;
  /** The same work without us, measured in the same run. */
  readonly floor?: Quantity;
  /** Ours divided by the floor, where that says something. */
  readonly ratio?: number;
  /** Without a target the row only informs. */
  readonly target?: Target;
  /** The details behind the figure: rounds, percentiles, settings. */
  readonly notes: readonly string[];
  /** The columns of a row that is a line of a table of its own: the heads and the cells behind its name. */
  readonly line?: { readonly table: string; readonly heads: readonly string[]; readonly cells: readonly string[] };
}

export interface Benchmark {
  /** The names that `npm run bench -- NAME` matches. */
  readonly name: string;
  readonly run: (bench: Bench) => Promise<readonly Row[]>;
}

export const ms = (value: number): Quantity => ({ value, unit: 'ms' });
export const seconds = (value: number): Quantity => ({ value, unit: 's' });
export const perSecond = (value: number): Quantity => ({ value, unit: '/s' });
export const megabytes = (value: number): Quantity => ({ value, unit: 'MB' });
export const count = (value: number): Quantity => ({ value, unit: '' });

/**
 * The smallest value that is not below `share` of all (nearest rank).
 * @param share 0 to 1
 */
export const percentile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.max(0, Math.ceil(share * sorted.length) - 1);
  return sorted[rank] ?? Number.NaN;
};

/** The middle value; of an even number the mean of the two. */
export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[half - 1] ?? Number.NaN)) / 2;
};

/** A number with as many digits as mean something. */
export const digits = (value: number): string => {
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
};

/** `p50 1.2, p99 3.4` */
export const spread = (values: readonly number[]): string =>
  `p50 ${digits(median(values))}, p99 ${digits(percentile(values, 0.99))}`;

/** `3.1 (2.9 to 3.4)`: the median and the extremes of the rounds. */
export const range = (values: readonly number[]): string =>
  `${digits(median(values))} (${digits(Math.min(...values))} to ${digits(Math.max(...values))})`;

export interface Pair<T> {
  readonly ours: T;
  readonly floor: T;
}

/**
 * Measures the two sides by turns, each round beginning with the other one: what else happens on the machine meanwhile
 * falls on both.
 */
export const byTurns = async <T>(
  rounds: number,
  ours: () => Promise<T>,
  floor: () => Promise<T>,
): Promise<Pair<T>[]> => {
  const pairs: Pair<T>[] = [];
  for (let round = 0; round < rounds; round += 1) {
    if (round % 2 === 0) {
      const first = await ours();
      pairs.push({ ours: first, floor: await floor() });
    } else {
      const first = await floor();
      pairs.push({ ours: await ours(), floor: first });
    }
  }
  return pairs;
};

/** @throws {Error} with the first wrong answer: a figure over failed requests says nothing */
export const allRight = (result: LoadResult): LoadResult => {
  if (result.errors > 0) throw new Error(`${result.errors} requests failed: ${result.firstError}`);
  return result;
};
