import { setTimeout as pause, setImmediate as yieldToOthers } from 'node:timers/promises';
import { type LogFilter, type ProjectLogLine, fitsFilter, searchLogs } from '#domain/functions/log-search.ts';
import type { LogLevel } from '#domain/jobs/logs.ts';
import { type LineFilter, fitsLine, searchLines } from '#domain/logs/search.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { LogsEvent, ProjectLine, Subscriber } from '#queues/signals.ts';
import { shownLine } from '#api/shapes/log-lines.ts';
import type { Deps } from '#api/deps.ts';
import type { RawReply } from '#api/endpoint.ts';
import { type ListenerOf, listen } from './job-events.ts';
import { type EventStream, eventText } from './sse.ts';

/** A line that was sent just before the subscription is on its way to the rows. */
const rowsLagMs = 50;
/** Lines of several runs come in turns, and some were written a while before those that came sooner. */
const overlapMs = 2000;
const maxReplayed = 200;
/** Well below what may lie unread. */
const maxReplayedBytes = 128 * 1024;
const maxWaiting = 1000;
/** Lines of a project that its listeners have not been given yet: those of six runs that log all they may at once. */
const maxUndelivered = 50_000;

/** A line, on its way to listeners. */
interface LiveLine {
  /** Null: it is no line of a run. */
  readonly ofRun: ProjectLogLine | null;
  /** Null: it is the line of a run. */
  readonly other: ProjectLine | null;
  readonly ts: string;
  /** Its place among lines of the same time. */
  readonly place: string;
  /** Names it: a line that was sent is not sent again. */
  readonly key: string;
  /** Written once, for all listeners. */
  readonly text: string;
}
interface Listener {
  readonly receive: (lines: readonly LiveLine[]) => void;
  /** Ends it: it may come back, and is then sent the end of what it missed. */
  readonly drop: () => void;
}

/** The listeners of one project. */
interface Hub {
  readonly listeners: Set<Listener>;
  readonly subscribed: Promise<() => void>;
}

const hubsBySubscriber = new WeakMap<Subscriber, Map<string, Hub>>();

/** The id of an event is the time of its line: a client that comes back is sent everything since then. */
const textOf = (ts: string, data: unknown): string => `id: ${Date.parse(ts)}\n${eventText('log', data)}`;

const runLine = (line: ProjectLogLine): LiveLine => {
  const { ts, level, message, fields, ...of } = line;
  return {
    ofRun: line,
    other: null,
    ts,
    place: String(line.line).padStart(9, '0'),
    key: `${line.invocation_id} ${line.line}`,
    text: textOf(ts, { ts, level, source: 'function', message, fields: fields ?? null, ...of }),
  };
};

/** A line about a mail comes again when that changes. */
const otherLine = (line: ProjectLine): LiveLine => ({
  ofRun: null,
  other: line,
  ts: line.ts,
  place: line.id,
  key: `${line.id} ${line.message}`,
  text: textOf(line.ts, shownLine(line)),
});

const liveLines = (event: LogsEvent): LiveLine[] => {
  if (!('invocation_id' in event)) return event.lines.map(otherLine);
  const { function_id, invocation_id, first_line, lines } = event;
  return lines.map(({ level, ...kept }, place) => {
    const of = { function_id, invocation_id, line: first_line + place, request_id: null };
    return runLine({ ...kept, level: level as LogLevel, ...of });
  });
};

const openHub = (subscriber: Subscriber, projectId: string): Hub => {
  const listeners = new Set<Listener>();
  let waiting = 0;
  let delivered: Promise<void> = Promise.resolve();
  const deliver = async (lines: readonly LiveLine[]): Promise<void> => {
    for (const listener of listeners) {
      listener.receive(lines);
      // A filter takes 10 ms for the 8,000 lines that one event may have.
      await yieldToOthers();
    }
    waiting -= lines.length;
  };
  const subscribed = subscriber.followLogs(projectId, (event) => {
    const lines = liveLines(event);
    if (waiting + lines.length > maxUndelivered) {
      for (const listener of listeners) listener.drop();
      return;
    }
    waiting += lines.length;
    delivered = delivered.then(() => deliver(lines));
  });
  return { listeners, subscribed };
};

const subscribeWithinMs = 1000;

/** Without Redis there are no live lines; a client that comes back later misses none. */
const inTime = async (subscribed: Promise<unknown>): Promise<void> => {
  const late = Promise.withResolvers<never>();
  const refuse = (): void =>
    late.reject(new ServiceError('dependency_unavailable', 'Logs cannot be followed just now.'));
  const timer = setTimeout(refuse, subscribeWithinMs);
  try {
    await Promise.race([subscribed, late.promise]);
  } finally {
    clearTimeout(timer);
  }
};

/** @returns how to stop */
const subscribe = async (subscriber: Subscriber, projectId: string, listener: Listener): Promise<() => void> => {
  const hubs = hubsBySubscriber.get(subscriber) ?? new Map<string, Hub>();
  hubsBySubscriber.set(subscriber, hubs);
  const hub = hubs.get(projectId) ?? openHub(subscriber, projectId);
  hubs.set(projectId, hub);
  hub.listeners.add(listener);
  const stop = (): void => {
    hub.listeners.delete(listener);
    if (hub.listeners.size > 0 || hubs.get(projectId) !== hub) return;
    hubs.delete(projectId);
    hub.subscribed.then(
      (end) => end(),
      () => undefined,
    );
  };
  try {
    await inTime(hub.subscribed);
    return stop;
  } catch (error) {
    stop();
    throw error;
  }
};

const byTime = (a: LiveLine, b: LiveLine): number =>
  a.ts === b.ts ? (a.place < b.place ? -1 : 1) : a.ts < b.ts ? -1 : 1;

/** The latest lines, as many as a listener may have unread. */
const latest = (lines: readonly LiveLine[]): LiveLine[] => {
  let bytes = 0;
  return lines
    .toSorted(byTime)
    .toReversed()
    .filter(({ text }) => (bytes += Buffer.byteLength(text)) <= maxReplayedBytes)
    .toReversed();
};

/** The part of a project's log that somebody listens to. */
interface Feed {
  readonly fits: (line: LiveLine) => boolean;
  /** The lines since a time, the latest first, and whether there are more. */
  readonly search: (db: Queryable, since: Date) => Promise<{ readonly lines: LiveLine[]; readonly isMore: boolean }>;
}

/** The lines of the runs of functions. */
export const runFeed = (projectId: string, filter: LogFilter): Feed => {
  const fits = fitsFilter(filter);
  return {
    fits: ({ ofRun }) => ofRun !== null && fits(ofRun),
    search: async (db, since) => {
      const { logs, next } = await searchLogs(db, projectId, { ...filter, since, limit: maxReplayed });
      return { lines: logs.map(runLine), isMore: next !== null };
    },
  };
};

/** The lines of other sources. */
export const lineFeed = (projectId: string, filter: LineFilter): Feed => {
  const fits = fitsLine(filter);
  return {
    fits: ({ other }) => other !== null && fits(other),
    search: async (db, since) => {
      const { lines, next } = await searchLines(db, projectId, { ...filter, since, limit: maxReplayed });
      return { lines: lines.map(otherLine), isMore: next !== null };
    },
  };
};

/**
 * Sends what was logged since a time, the oldest first; where that is too much the latest of it, behind an event `gap`.
 * @returns the lines that were sent
 */
const replay = async (db: Queryable, feed: Feed, since: Date, stream: EventStream): Promise<Set<string>> => {
  const found = await feed.search(db, since);
  const lines = latest(found.lines);
  if (found.isMore || lines.length < found.lines.length) stream.send('gap', { until: lines[0]?.ts ?? null });
  for (const { text } of lines) stream.sendText(text);
  return new Set(lines.map(({ key }) => key));
};

interface LogEventsRequest {
  readonly feed: Feed;
  readonly since: Date | undefined;
  readonly lastEventId: string | string[] | undefined;
}

const sinceOf = ({ since, lastEventId }: LogEventsRequest): Date | undefined => {
  if (typeof lastEventId !== 'string' || !/^\d{12,14}$/.test(lastEventId)) return since;
  return new Date(Number(lastEventId) - overlapMs);
};

const begin = async (
  deps: Deps,
  { projectId }: ListenerOf,
  request: LogEventsRequest,
  stream: EventStream,
): Promise<void> => {
  const { feed } = request;
  let waiting: LiveLine[] | null = [];
  const send = (lines: readonly LiveLine[]): void => {
    const text = lines.filter(feed.fits).map((line) => line.text);
    if (text.length > 0) stream.sendText(text.join(''));
  };
  const drop = (): void => void stream.body.destroy();
  const receive = (lines: readonly LiveLine[]): void => {
    if (waiting === null) return send(lines);
    waiting.push(...lines);
    if (waiting.length > maxWaiting) drop();
  };
  const stop = await subscribe(deps.subscriber, projectId, { receive, drop });
  stream.body.once('close', stop);
  if (stream.body.destroyed) return stop();
  const since = sinceOf(request);
  const catchUp = async (): Promise<void> => {
    await pause(rowsLagMs);
    const sent = since === undefined ? new Set() : await replay(deps.db, feed, since, stream);
    send((waiting ?? []).filter(({ key }) => !sent.has(key)));
    waiting = null;
  };
  // Not waited for: the answer begins first.
  catchUp().catch((error: unknown) => {
    if (!(error instanceof ServiceError)) deps.log.warn({ err: error }, 'the logs of a project could not be read');
    stream.body.destroy();
  });
};

/**
 * The lines of a part of a project's log as they come, as server-sent events `log`. With a `Last-Event-ID` or `since`
 * what was logged since then comes first; lines of the last two seconds may come twice after an interruption.
 * @throws {ServiceError} `rate_limited`
 */
export const projectLogEvents = (deps: Deps, who: ListenerOf, request: LogEventsRequest): Promise<RawReply> =>
  listen(deps, who, (_followed, stream) => begin(deps, who, request, stream));
