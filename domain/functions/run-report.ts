import type { RunStatus, RunTimings } from '#queues/function-invoke.ts';
import type { ResponseKind, ResponseResult } from './response.ts';

/**
 * The end of a run, as the runtime reports it; `result` is JSON text that is parsed nowhere on the way, so it stays
 * exact.
 */
export interface FinishedRun {
  readonly status: RunStatus;
  readonly result: string | null;
  readonly durationMs: number;
  readonly error: { readonly name: string; readonly message: string; readonly stack: string } | null;
  readonly logs: readonly {
    readonly ts: string;
    readonly level: string;
    readonly message: string;
    readonly fields?: Readonly<Record<string, unknown>>;
  }[];
  /** The result stands for a response, and how its body is written there. Left out: it is a value. */
  readonly response?: ResponseKind | undefined;
  /** Left out: it did not start. */
  readonly timings?: RunTimings | undefined;
}

const afterResult = ',"duration_ms":';

/** The same name in JSON, which no search for the first form finds. */
const afterResultEscaped = ',"duration\\u005fms":';

/**
 * The log of a run as JSON text: one for its answer and its record, since it may take some ms to make. A field of a line
 * may have any name, and must not look like the end of the result.
 */
export const logsTextOf = ({ logs }: FinishedRun): string =>
  logs.length === 0 ? '' : JSON.stringify(logs).replaceAll(afterResult, afterResultEscaped);

/**
 * The invoke answer (contract, section 4) as JSON text, around the handler's own result text.
 * @param logsText of the same run
 */
export const invokeAnswer = (invocationId: string, run: FinishedRun, logsText = logsTextOf(run)): string => {
  const rest = JSON.stringify({
    duration_ms: run.durationMs,
    ...(run.response && { response: run.response }),
    ...(run.timings && { timings: run.timings }),
    invocation_id: invocationId,
    ...(run.error && { error: run.error }),
  });
  const logs = logsText === '' ? '' : `,"logs":${logsText}`;
  return `{"status":"${run.status}","result":${run.result ?? 'null'},${rest.slice(1, -1)}${logs}}`;
};

/**
 * The handler's bare result text out of an invoke answer. Behind the result no further `,"duration_ms":` follows: the
 * error holds only strings under fixed names, and `logsTextOf` escapes it; before the result there is only the status.
 */
export const bareResult = (answer: string): string => {
  const begin = answer.indexOf('"result":') + '"result":'.length;
  return answer.slice(begin, answer.lastIndexOf(afterResult));
};

/** An invoke answer without what a function says of its own inside. The result's text stays as it is. */
export const publicAnswer = (answer: string): string => {
  const end = Math.max(0, answer.lastIndexOf(afterResult));
  const rest = JSON.parse(`{${answer.slice(end + 1)}`) as Readonly<Record<string, unknown>>;
  const { error: _error, logs: _logs, timings: _timings, ...shown } = rest;
  return `${answer.slice(0, end + 1)}${JSON.stringify(shown).slice(1)}`;
};

const timingsMark = /^,"duration_ms":[\d.e+-]+(?:,"response":"\w+")?,"timings":(\{[\w":,.+-]*\})/;

/** The timings that an invoke answer names. */
export const timingsOf = (answer: string): RunTimings | null => {
  const text = timingsMark.exec(answer.slice(answer.lastIndexOf(afterResult)))?.[1];
  return text === undefined ? null : (JSON.parse(text) as RunTimings);
};

const responseMark = /^,"duration_ms":[\d.e+-]+,"response":"(text|base64|stream)"/;

/** The response that an invoke answer stands for; null when its result is a value. */
export const responseOf = (
  answer: string,
): (Omit<ResponseResult, 'body'> & { readonly body: Buffer | null }) | null => {
  const kind = responseMark.exec(answer.slice(answer.lastIndexOf(afterResult)))?.[1];
  if (kind === undefined) return null;
  const { body, ...head } = JSON.parse(bareResult(answer)) as ResponseResult;
  return { ...head, body: body === null ? null : Buffer.from(body, kind === 'base64' ? 'base64' : 'utf8') };
};

/** A run with what is for its record only. */
export interface ReportedRun extends FinishedRun {
  readonly cpuMs: number;
  readonly memoryPeakMib: number;
  readonly logsTruncated: boolean;
}

type LogLine = FinishedRun['logs'][number];

/** The part of a run's log that a list shows: its end. */
export const maxListedLines = 100;
export const maxListedBytes = 16 * 1024;

const tenths = (value: number): number => Math.round(value * 10) / 10;

/** The levels of a log, as the record keeps them beside it. */
export const levelBits = { debug: 1, info: 2, warn: 4, error: 8 } as const;

const isLevel = (level: string): level is keyof typeof levelBits => Object.hasOwn(levelBits, level);

const levelsOf = (logs: readonly LogLine[]): number =>
  logs.reduce((bits, { level }) => bits | (isLevel(level) ? levelBits[level] : 0), 0);

const timesOf = ({ timings }: FinishedRun): readonly number[] =>
  timings === undefined ? [] : [timings.queue, timings.start, timings.db, timings.fetch];

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
 * the first holds duration, CPU time, peak memory, whether the log is cut, its levels and four of the timings, and the
 * others JSON or nothing: error, end of the log, log. JSON text has no line breaks, so that Postgres need not parse it, which `\\u0000` would make
 * impossible.
 * @param logsText of the same run
 */
export const reportOf = (run: ReportedRun, logsText = logsTextOf(run)): string => {
  const usage = [run.durationMs, tenths(run.cpuMs), tenths(run.memoryPeakMib), run.logsTruncated ? 1 : 0];
  const figures = [...usage, levelsOf(run.logs), ...timesOf(run)].join(' ');
  return [figures, run.error ? JSON.stringify(run.error) : '', tailOf(run.logs) ?? '', logsText].join('\n');
};
