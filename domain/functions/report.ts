import { type FinishedRun, logsTextOf } from './answer.ts';

/** A run with what is for its record only. */
export interface ReportedRun extends FinishedRun {
  readonly cpuMs: number;
  readonly memoryPeakMib: number;
  readonly logsTruncated: boolean;
}

export type LogLine = FinishedRun['logs'][number];

/** The part of a run's log that a list shows: its end. */
export const maxListedLines = 100;
export const maxListedBytes = 16 * 1024;

const tenths = (value: number): number => Math.round(value * 10) / 10;

/** The last lines that a list has room for; null when that is all of them. */
const tailOf = (logs: readonly LogLine[]): string | null => {
  let bytes = 2;
  let first = logs.length;
  while (first > 0 && logs.length - first < maxListedLines) {
    bytes += Buffer.byteLength(JSON.stringify(logs[first - 1])) + 1;
    if (bytes > maxListedBytes) break;
    first -= 1;
  }
  return first === 0 ? null : JSON.stringify(logs.slice(first));
};

/**
 * The facts of a run that only the worker knows, as the trigger `record_invocation` parses them: four lines, of which
 * the first holds duration, CPU time, peak memory and whether the log is cut, and the others JSON or nothing: error,
 * end of the log, log. JSON text has no line breaks, so that Postgres need not parse it, which `\\u0000` would make
 * impossible.
 * @param logsText of the same run
 */
export const reportOf = (run: ReportedRun, logsText = logsTextOf(run)): string => {
  const figures = [run.durationMs, tenths(run.cpuMs), tenths(run.memoryPeakMib), run.logsTruncated ? 1 : 0].join(' ');
  return [figures, run.error ? JSON.stringify(run.error) : '', tailOf(run.logs) ?? '', logsText].join('\n');
};
