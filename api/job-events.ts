import { type Followed, type FollowedEvent, createFollowed } from '#domain/jobs/follow.ts';
import { type JobRow, errorOf, hasEnded } from '#domain/jobs/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Ear } from '#queues/signals.ts';
import type { Deps } from './deps.ts';
import { RawReply } from './endpoint.ts';
import { resultOf } from './job-shapes.ts';
import { type EventStream, eventStreamType, openEventStream } from './sse.ts';

const mostListeners = 1000;
/** One project must not take the places of all others. */
export const mostListenersOfProject = 50;
// As long as an access token is good.
const longestMs = 3_600_000;

/** What follows jobs in one process, and for how many listeners. */
interface Listeners {
  readonly followed: Followed;
  readonly byProject: Map<string, number>;
  all: number;
}

const known = new WeakMap<Ear, Listeners>();

const listenersOf = ({ ear, db, jobs }: Deps): Listeners => {
  const present = known.get(ear) ?? { followed: createFollowed({ ear, db, jobs }), byProject: new Map(), all: 0 };
  known.set(ear, present);
  return present;
};

/** @returns how to give the place back */
const takePlace = (listeners: Listeners, projectId: string): (() => void) => {
  const { byProject } = listeners;
  const ofProject = byProject.get(projectId) ?? 0;
  if (listeners.all >= mostListeners || ofProject >= mostListenersOfProject) {
    throw new ServiceError('rate_limited', 'Too many listeners follow jobs just now.', {
      hint: 'Ask for the job itself now and then.',
      headers: { 'Retry-After': '30' },
    });
  }
  listeners.all += 1;
  byProject.set(projectId, ofProject + 1);
  return () => {
    listeners.all -= 1;
    const left = (byProject.get(projectId) ?? 1) - 1;
    if (left === 0) byProject.delete(projectId);
    else byProject.set(projectId, left);
  };
};

type Told = Pick<JobRow, 'status' | 'attempt'> & Partial<JobRow>;

const statusOf = (row: Told) => ({
  status: row.status,
  attempt: row.attempt,
  progress: row.progress ?? null,
  result: resultOf({ result: row.result ?? null }),
  error: errorOf({ error_code: row.error_code ?? null, error_message: row.error_message ?? null }),
});

/** Writes events of a job in the form that clients see; a status twice in a row is told once. */
const tellerOf = (stream: EventStream) => {
  let last = '';
  const status = (row: Told): void => {
    const next = `${row.status} ${row.attempt}`;
    if (next !== last) stream.send('status', statusOf(row));
    last = next;
    if (hasEnded(row)) stream.end();
  };
  const tell = (event: FollowedEvent): void => {
    if (event.event === 'status') status({ status: event.status as JobRow['status'], attempt: event.attempt });
    else if (event.event === 'progress') stream.send('progress', { progress: event.progress });
    else if (event.event === 'log') stream.send('log', { ts: event.ts, level: event.level, message: event.message });
    else if (event.row === null) stream.end();
    else status(event.row);
  };
  return { status, tell };
};

/** Tells what happens from now on, after how the job stands now: what comes in between waits. */
const begin = async (deps: Deps, followed: Followed, row: JobRow, stream: EventStream): Promise<() => void> => {
  const { status, tell } = tellerOf(stream);
  if (hasEnded(row)) {
    status(row);
    return () => undefined;
  }
  const early: FollowedEvent[] = [];
  let hear = (event: FollowedEvent): void => void early.push(event);
  const stop = await followed.follow(row, (event) => hear(event));
  // What happened before the first event could be heard stands in the row.
  status(await deps.jobs.get(row.project_id, row.id).catch(() => row));
  hear = tell;
  for (const event of early) tell(event);
  return stop;
};

/**
 * What happens to a job, as server-sent events, until it ends. `status` carries `{status, attempt, progress, result,
 * error}`, `progress` `{progress}`, `log` `{ts, level, message}`.
 * @throws {ServiceError} `not_found`, `rate_limited`
 */
export const jobEvents = async (deps: Deps, projectId: string, jobId: string): Promise<RawReply> => {
  const row = await deps.jobs.get(projectId, jobId);
  const listeners = listenersOf(deps);
  const leave = takePlace(listeners, projectId);
  let stop: (() => void) | undefined;
  const stream = openEventStream({
    goesOn: deps.health.accepting,
    longestMs,
    onClose: () => {
      leave();
      stop?.();
    },
  });
  stop = await begin(deps, listeners.followed, row, stream);
  if (stream.body.destroyed) stop();
  return new RawReply(stream.body, eventStreamType);
};
