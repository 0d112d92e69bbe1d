import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { JobEvent, Subscriber } from '#queues/signals.ts';
import type { Jobs } from './jobs.ts';
import { type JobRow, type JobStatus, hasEnded } from './store.ts';

/** Something about a followed job. `end`: with its last row, or null when the row is gone; nothing comes after it. */
export type FollowedEvent = JobEvent | { readonly event: 'end'; readonly row: JobRow | null };

interface FollowDeps {
  readonly db: Queryable;
  readonly jobs: Pick<Jobs, 'get'>;
  readonly subscriber: Pick<Subscriber, 'follow'>;
}

/** Followed jobs of one process. */
export interface Followed {
  /**
   * Passes the events of a job to the listener. Resolves once the process is subscribed, at the latest after a second:
   * without Redis the end is still reported, from the rows.
   * @returns how to stop
   */
  readonly follow: (
    job: Pick<JobRow, 'id' | 'project_id'>,
    listener: (event: FollowedEvent) => void,
  ) => Promise<() => void>;
}

const pollIntervalMs = 2000;
const subscribeTimeoutMs = 1000;

interface Following {
  readonly job: Pick<JobRow, 'id' | 'project_id'>;
  readonly listener: (event: FollowedEvent) => void;
}

/** Signals can get lost with their connection, so one statement polls all followed rows every 2 s. */
const watchRows = (db: Queryable, onEnd: (following: Following) => void) => {
  const all = new Set<Following>();
  let poller: Poller | undefined;

  const poll = async (): Promise<void> => {
    const queried = [...all];
    const rows = await db.query<{ id: string }>(
      `select id from jobs where id = any($1::uuid[]) and status in ('queued', 'running', 'waiting')`,
      [[...new Set(queried.map(({ job }) => job.id))]],
      'followed-jobs',
    );
    const alive = new Set(rows.map(({ id }) => id));
    for (const following of queried) if (all.has(following) && !alive.has(following.job.id)) onEnd(following);
  };

  return {
    add: (following: Following): void => {
      all.add(following);
      // While Postgres is away the end of a job is unknown; a later poll may find it.
      poller ??= startPoller(poll, {
        everyMs: pollIntervalMs,
        firstInMs: pollIntervalMs,
        onFailure: () => undefined,
      });
    },
    remove: (following: Following): boolean => {
      const isRemoved = all.delete(following);
      if (all.size === 0) {
        void poller?.stop();
        poller = undefined;
      }
      return isRemoved;
    },
  };
};

/** The row of a job that is said to have ended; undefined when it goes on, or cannot be read just now. */
const endedRow = (jobs: FollowDeps['jobs'], { id, project_id: projectId }: Following['job']) =>
  jobs.get(projectId, id).then(
    (row) => (hasEnded(row) ? row : undefined),
    (error: unknown) => (error instanceof ServiceError && error.code === 'not_found' ? null : undefined),
  );

export const createFollowed = ({ db, jobs, subscriber }: FollowDeps): Followed => {
  const notifyEnd = async (following: Following): Promise<void> => {
    const row = await endedRow(jobs, following.job);
    if (row !== undefined && rows.remove(following)) following.listener({ event: 'end', row });
  };
  const end = (following: Following): void => void notifyEnd(following);
  const rows = watchRows(db, end);

  return {
    follow: async (job, listener) => {
      const following = { job, listener };
      rows.add(following);
      const subscription = subscriber.follow(job.id, (event) => {
        if (event.event === 'status' && hasEnded({ status: event.status as JobStatus })) end(following);
        else listener(event);
      });
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, subscribeTimeoutMs);
      await Promise.race([subscription.catch(() => undefined), late.promise]);
      clearTimeout(timer);
      return () => {
        rows.remove(following);
        subscription.then(
          (stop) => stop(),
          () => undefined,
        );
      };
    },
  };
};
