import { type JobRow, errorOf, hasEnded, maxListedResultLength } from '#domain/jobs/store.ts';
import { type Followed, type FollowedEvent, createFollowed } from '#domain/jobs/follow.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Subscriber } from '#queues/signals.ts';
import type { Deps } from '#api/deps.ts';
import { RawReply } from '#api/endpoint.ts';
import { resultOf } from '#api/shapes/jobs.ts';
import { type EventStream, eventStreamType, openEventStream } from './sse.ts';
import { watchAccess } from './access.ts';

const maxListeners = 1000;
/** One project must not take the places of all others, nor one user with many projects. */
export const maxListenersOfProject = 50;
export const maxListenersOfUser = 100;
/** After that the client reconnects. */
export const maxListenMs = 5 * 60_000;

/** The followed jobs of one process, and the number of listeners by project and user. */
interface Listeners {
  readonly followed: Followed;
  readonly taken: Map<string, number>;
}

const known = new WeakMap<Subscriber, Listeners>();

const listenersOf = ({ subscriber, db, jobs }: Deps): Listeners => {
  const present = known.get(subscriber) ?? { followed: createFollowed({ subscriber, db, jobs }), taken: new Map() };
  known.set(subscriber, present);
  return present;
};

/** The job to follow, and the caller. */
export interface JobEventsRequest extends ListenerOf {
  readonly jobId: string;
}

/** The one who listens, and to which project. */
export interface ListenerOf {
  readonly projectId: string;
  readonly userId: string;
  readonly signInId: string;
}

/** @returns how to give the place back */
const takePlace = (taken: Listeners['taken'], { projectId, userId }: ListenerOf): (() => void) => {
  const bounds = {
    all: maxListeners,
    [`project ${projectId}`]: maxListenersOfProject,
    [`user ${userId}`]: maxListenersOfUser,
  };
  if (Object.entries(bounds).some(([whose, max]) => (taken.get(whose) ?? 0) >= max)) {
    throw new ServiceError('rate_limited', 'Too many listeners follow jobs or logs just now.', {
      hint: 'Ask for the job or the logs themselves now and then.',
      headers: { 'Retry-After': '30' },
    });
  }
  const count = (whose: string, more: 1 | -1): void => {
    const now = (taken.get(whose) ?? 0) + more;
    if (now === 0) taken.delete(whose);
    else taken.set(whose, now);
  };
  for (const whose of Object.keys(bounds)) count(whose, 1);
  return () => {
    for (const whose of Object.keys(bounds)) count(whose, -1);
  };
};

/**
 * An answer of events about a job, in one of the places that there are for listeners.
 * @param begin resolves once the answer may go out; the events come then or later
 * @throws {ServiceError} `rate_limited`
 */
export const listen = async (
  deps: Deps,
  request: ListenerOf,
  begin: (followed: Followed, stream: EventStream) => Promise<void>,
): Promise<RawReply> => {
  const { followed, taken } = listenersOf(deps);
  const leave = takePlace(taken, request);
  const access = watchAccess(deps, request);
  const stream = openEventStream({
    goesOn: () => deps.health.accepting() && access.holds(),
    maxMs: maxListenMs,
    onClose: () => {
      access.forget();
      leave();
    },
  });
  try {
    await begin(followed, stream);
  } catch (error) {
    stream.body.destroy();
    throw error;
  }
  return new RawReply(stream.body, eventStreamType);
};

type EmittedJob = Pick<JobRow, 'status' | 'attempt'> & Partial<JobRow>;

// As in a list: the job itself has it.
const listed = (result: string | null): string | null =>
  result !== null && Buffer.byteLength(result) <= maxListedResultLength ? result : null;

const statusOf = (row: EmittedJob) => ({
  status: row.status,
  attempt: row.attempt,
  progress: row.progress ?? null,
  result: resultOf({ result: listed(row.result ?? null) }),
  error: errorOf({ error_code: row.error_code ?? null, error_message: row.error_message ?? null }),
});

/** Writes events of a job in the form that clients see; a repeated status is sent once. */
const emitterOf = (stream: EventStream) => {
  let last = '';
  const status = (row: EmittedJob): void => {
    const next = `${row.status} ${row.attempt}`;
    if (next !== last) stream.send('status', statusOf(row));
    last = next;
    if (hasEnded(row)) stream.end();
  };
  const emit = (event: FollowedEvent): void => {
    if (event.event === 'status') status({ status: event.status as JobRow['status'], attempt: event.attempt });
    else if (event.event === 'progress') stream.send('progress', { progress: event.progress });
    else if (event.event === 'log') {
      const { ts, level, message, fields } = event;
      stream.send('log', { ts, level, message, fields });
    } else if (event.row === null) stream.end();
    else status(event.row);
  };
  return { status, emit };
};

/** Sends events until the stream ends, after the job's present state: events in between wait. */
const begin = async (deps: Deps, followed: Followed, row: JobRow, stream: EventStream): Promise<void> => {
  const { status, emit } = emitterOf(stream);
  if (hasEnded(row)) return status(row);
  const early: FollowedEvent[] = [];
  let onEvent = (event: FollowedEvent): void => void early.push(event);
  const stop = await followed.follow(row, (event) => onEvent(event));
  if (stream.body.destroyed) return stop();
  stream.body.once('close', stop);
  // Events from before the subscription are in the row.
  status(await deps.jobs.get(row.project_id, row.id).catch(() => row));
  onEvent = emit;
  for (const event of early) emit(event);
};

/**
 * The events of a job, as server-sent events, until it ends. `status` carries `{status, attempt, progress, result,
 * error}`, `progress` `{progress}`, `log` `{ts, level, message}`. A result longer than 16 KiB is left to the job
 * itself.
 * @throws {ServiceError} `not_found`, `rate_limited`
 */
export const jobEvents = async (deps: Deps, request: JobEventsRequest): Promise<RawReply> => {
  const row = await deps.jobs.get(request.projectId, request.jobId);
  return listen(deps, request, (followed, stream) => begin(deps, followed, row, stream));
};
