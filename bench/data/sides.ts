import { digits, median, percentile, range } from '../harness.ts';
import type { LoadResult } from '../load.ts';

/** Requests a second. */
export const rate = ({ latencies, seconds }: LoadResult): number => latencies.length / seconds;

/** CPU time of the server for a request. */
export const cpuMicros = ({ latencies, cpuSeconds }: LoadResult): number => (cpuSeconds / latencies.length) * 1e6;

/** The result of a side, for the notes below the table. */
export const side = (name: string, results: readonly LoadResult[]): string => {
  const all = results.flatMap((result) => result.latencies);
  return (
    `${name}: ${range(results.map(rate))} requests/s, ${digits(median(results.map(cpuMicros)))} µs of CPU a request; ` +
    `p50 ${digits(median(all))} ms, p99 ${digits(percentile(all, 0.99))} ms`
  );
};
