import { setTimeout as pause } from 'node:timers/promises';
import { type LogFilter, type ProjectLogLine, fitsFilter, searchLogs } from '#domain/functions/log-search.ts';
import type { LogLevel } from '#domain/jobs/logs.ts';
import { ServiceError } from '#lib/errors.ts';
import type { RunLinesEvent, Subscriber } from '#queues/signals.ts';
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

interface LiveLine {
  readonly line: ProjectLogLine;
  /** Written once, for all listeners. */
  readonly text: string;
}
type Listener = (lines: readonly LiveLine[]) => void;

/** The listeners of one project. */
interface Hub {
  readonly listeners: Set<Listener>;
  readonly subscribed: Promise<() => void>;
}

const hubsBySubscriber = new WeakMap<Subscriber, Map<string, Hub>>();

/** The id of a line is its time: a client that comes back is sent everything since then. */
const textOf = ({ ts, level, message, fields, ...of }: ProjectLogLine): string => {
  const data = { ts, level, source: 'function', message, fields: fields ?? null, ...of };
  return `id: ${Date.parse(ts)}\n${eventText('log', data)}`;
};

const liveLines = ({ function_id, invocation_id, first_line, lines }: RunLinesEvent): LiveLine[] =>
  lines.map(({ level, ...kept }, place) => {
    const of = { function_id, invocation_id, line: first_line + place, request_id: null };
    const line = { ...kept, level: level as LogLevel, ...of };
    return { line, text: textOf(line) };
  });

const openHub = (subscriber: Subscriber, projectId: string): Hub => {
  const listeners = new Set<Listener>();
  const subscribed = subscriber.followLogs(projectId, (event) => {
    const lines = liveLines(event);
    for (const listener of listeners) listener(lines);
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

const keyOf = ({ invocation_id, line }: ProjectLogLine): string => `${invocation_id} ${line}`;

const byTime = (a: ProjectLogLine, b: ProjectLogLine): number =>
  a.ts === b.ts ? a.line - b.line : a.ts < b.ts ? -1 : 1;

/** The latest lines, as many as a listener may have unread. */
const latest = (lines: readonly ProjectLogLine[]): ProjectLogLine[] => {
  let bytes = 0;
  return lines
    .toSorted(byTime)
    .toReversed()
    .filter((line) => (bytes += Buffer.byteLength(textOf(line))) <= maxReplayedBytes)
    .toReversed();
};

/**
 * Sends what was logged since a time, the oldest first; where that is too much the latest of it, behind an event `gap`.
 * @returns the lines that were sent
 */
const replay = async (deps: Deps, projectId: string, filter: LogFilter, stream: EventStream): Promise<Set<string>> => {
  const { logs, next } = await searchLogs(deps.db, projectId, { ...filter, limit: maxReplayed });
  const lines = latest(logs);
  if (next !== null || lines.length < logs.length) stream.send('gap', { until: lines[0]?.ts ?? null });
  for (const line of lines) stream.sendText(textOf(line));
  return new Set(lines.map(keyOf));
};

const sinceOf = (filter: LogFilter, lastEventId: string | string[] | undefined): Date | undefined => {
  if (typeof lastEventId !== 'string' || !/^\d{12,14}$/.test(lastEventId)) return filter.since;
  return new Date(Number(lastEventId) - overlapMs);
};

interface LogEventsRequest {
  readonly filter: LogFilter;
  readonly lastEventId: string | string[] | undefined;
}

const begin = async (
  deps: Deps,
  { projectId }: ListenerOf,
  { filter, lastEventId }: LogEventsRequest,
  stream: EventStream,
): Promise<void> => {
  const fits = fitsFilter(filter);
  let waiting: LiveLine[] | null = [];
  const send = (lines: readonly LiveLine[]): void => {
    for (const { line, text } of lines) if (fits(line)) stream.sendText(text);
  };
  const stop = await subscribe(deps.subscriber, projectId, (lines) => {
    if (waiting === null) return send(lines);
    waiting.push(...lines);
    // It may come back, and is then sent the end of this.
    if (waiting.length > maxWaiting) stream.body.destroy();
  });
  stream.body.once('close', stop);
  if (stream.body.destroyed) return stop();
  const since = sinceOf(filter, lastEventId);
  const catchUp = async (): Promise<void> => {
    await pause(rowsLagMs);
    const sent = since === undefined ? new Set() : await replay(deps, projectId, { ...filter, since }, stream);
    send((waiting ?? []).filter(({ line }) => !sent.has(keyOf(line))));
    waiting = null;
  };
  // Not waited for: the answer begins first.
  catchUp().catch((error: unknown) => {
    if (!(error instanceof ServiceError)) deps.log.warn({ err: error }, 'the logs of a project could not be read');
    stream.body.destroy();
  });
};

/**
 * The log lines of all runs of a project as they come, as server-sent events `log`. With a `Last-Event-ID` or `since`
 * what was logged since then comes first; lines of the last two seconds may come twice after an interruption.
 * @throws {ServiceError} `rate_limited`
 */
export const projectLogEvents = (deps: Deps, who: ListenerOf, request: LogEventsRequest): Promise<RawReply> =>
  listen(deps, who, (_followed, stream) => begin(deps, who, request, stream));
