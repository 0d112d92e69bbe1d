import type { LogLine, LogPart } from '#domain/jobs/logs.ts';
import { createIsoTimes } from '#lib/iso-times.ts';
import type { LinesSource } from '#queues/signals.ts';
import type { RunJobDeps } from './work.ts';

const maxLogLength = 256 * 1024;
/** The bytes that the time and the level of a line take: empty lines count, too. */
const lineBytes = 32;
const maxLineLength = 16 * 1024;
/** For the sign that a sandbox sets behind a line that it has cut itself. */
const roomForSign = 64;
/** For people who watch a run; five functions that log all the time cost 50 statements a second in place of 100,000. */
const flushEveryMs = 100;

const cutLine = (text: string): string =>
  text.length <= maxLineLength + roomForSign
    ? text
    : `${text.slice(0, maxLineLength)}… [${text.length - maxLineLength} characters cut]`;

const lengthOf = (fields: LogLine['fields']): number => (fields === undefined ? 0 : JSON.stringify(fields).length);

const maxClockSkewMs = 24 * 3600 * 1000;

/** A sandbox's timestamps are accepted within a day. Lines of one millisecond share the same text. */
const createTimes = (): ((ts: string | undefined) => string) => {
  const textOf = createIsoTimes();
  let believed: string | undefined;
  return (ts) => {
    if (ts !== undefined && ts === believed) return ts;
    const [now, stated] = [Date.now(), Date.parse(ts ?? '')];
    const text = textOf(Math.abs(stated - now) < maxClockSkewMs ? stated : now);
    believed = text === ts ? text : undefined;
    return text;
  };
};

/** The log of one run on its way to its rows and to listeners. */
export interface RunLines {
  readonly add: (level: LogLine['level'], text: string, ts: string | undefined, fields?: LogLine['fields']) => void;
  /**
   * The run is over; further lines are dropped. Listeners receive all lines before the end.
   * @param isReported the whole log is in the report of the run: then the last lines need no row
   */
  readonly end: (isReported: boolean) => void;
}

export const createRunLines = (
  { recorder, signals }: Pick<RunJobDeps, 'recorder' | 'signals'>,
  jobId: string,
  source?: LinesSource,
): RunLines => {
  let [waiting, firstLine, bytes, isOver]: [LogLine[], number, number, boolean] = [[], 1, 0, false];
  let timer: NodeJS.Timeout | undefined;
  const timeOf = createTimes();
  /** Parts that are on their way into their rows. Who begins to listen after that finds them there. */
  const untold = new Set<LogPart>();

  const take = (): LogPart => {
    clearTimeout(timer);
    timer = undefined;
    const part = { jobId, firstLine, lines: waiting };
    firstLine += waiting.length;
    waiting = [];
    untold.add(part);
    return part;
  };
  const report = (part: LogPart): void => {
    if (!untold.delete(part) || part.lines.length === 0) return;
    signals.announce(jobId, { event: 'logs', first_line: part.firstLine, lines: part.lines }, source);
  };
  const flush = (): void => {
    const part = take();
    void recorder.log(part).then(() => report(part));
  };

  return {
    add: (level, text, ts, fields) => {
      const message = cutLine(text).replaceAll('\0', '\uFFFD').toWellFormed();
      bytes += Buffer.byteLength(message) + lengthOf(fields) + lineBytes;
      if (isOver || bytes > maxLogLength) return;
      waiting.push({ ts: timeOf(ts), level, message, ...(fields && { fields }) });
      timer ??= setTimeout(flush, flushEveryMs);
    },
    end: (isReported) => {
      isOver = true;
      const last = take();
      if (!isReported && last.lines.length > 0) void recorder.log(last);
      for (const part of untold) report(part);
    },
  };
};
