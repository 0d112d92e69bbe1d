import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone } from '#domain/data-api/errors.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { processOf, wireOf } from '#lib/postgres/wire.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { noteAbandoned, refuseWhileAbandoned, stopQuery } from '#domain/data-api/stop-query.ts';

export type FenceDb = Pick<ProjectDb, 'use' | 'endSession'>;

export interface Fence {
  readonly projectId: string;
  readonly role: TenantRole;
  /** The time-out that the server gets; an outside watchdog ends statements that lift it. */
  readonly timeoutMs: number;
  /** The time at which the statement is cancelled, whatever time-out the server got. Left out: some time after that. */
  readonly stopAfterMs?: number;
  /** Aborted when no caller waits any more. */
  readonly signal: AbortSignal;
}

/** The cause that stopped the statement, when it was not the server. */
export type StoppedBy = 'watchdog' | 'caller' | null;

const watchdogGraceMs = 2000;
/**
 * A statement that goes on after it was stopped is left behind. It was cancelled at once, and its session is ended after
 * 2 s; its process has less priority, and on a busy machine it may take seconds until that comes to it.
 */
const letGoMs = 8000;

/** Carries the end out of `use`, which closes the connection of work that throws. */
class SessionSpent extends Error {
  override readonly name = 'SessionSpent';
  readonly end: PromiseSettledResult<unknown>;

  constructor(end: PromiseSettledResult<unknown>) {
    super('a session that ran SQL of the user is not lent again');
    this.end = end;
  }
}

/** The name of a session whose statements may take so long, for `fencedSeconds` of the watchdog. */
const fencedName = (seconds: number): string => `plinth fence ${seconds} s`;

/** A lent connection may have been used before. Warnings have no reader, and can be without end. */
const freshen = async (client: ClientBase, timeoutMs: number): Promise<void> => {
  await client.query('discard all');
  // The name passes the statement's time limit to the servers' watchdog; without it the watchdog waits longer.
  const seconds = Math.ceil((timeoutMs + watchdogGraceMs) / 1000);
  await client.query(
    `set statement_timeout = ${timeoutMs}; set client_min_messages = error; set application_name = '${fencedName(seconds)}'`,
  );
};

/**
 * Closes the connection under a statement that cannot be stopped, so that the project has it again and the caller gets
 * an answer, as if the server had sent it: it has ended the session for us, and the process goes on without.
 */
const letGo = ({ projectId }: Fence, client: ClientBase): void => {
  noteAbandoned(projectId, processOf(client));
  const ended = new DatabaseError('the statement took too long and was stopped', 0, 'error');
  ended.code = '57014';
  ended.severity = 'FATAL';
  wireOf(client).stream.destroy(ended);
};

export type FencedWork<T> = (client: ClientBase, stoppedBy: () => StoppedBy) => Promise<T>;

const guarded = async <T>(db: FenceDb, fence: Fence, client: ClientBase, work: FencedWork<T>): Promise<T> => {
  const over = new AbortController();
  let stopped: StoppedBy = null;
  let patience: NodeJS.Timeout | undefined;
  const stop = (by: StoppedBy): void => {
    if (stopped !== null) return;
    stopped = by;
    patience = setTimeout(() => letGo(fence, client), letGoMs);
    void stopQuery(db, { projectId: fence.projectId, client, ended: over.signal });
  };
  const leave = (): void => stop('caller');
  const watchdog = setTimeout(() => stop('watchdog'), fence.stopAfterMs ?? fence.timeoutMs + watchdogGraceMs);
  fence.signal.addEventListener('abort', leave, { once: true });
  try {
    fence.signal.throwIfAborted();
    return await work(client, () => stopped);
  } finally {
    over.abort();
    clearTimeout(watchdog);
    clearTimeout(patience);
    fence.signal.removeEventListener('abort', leave);
  }
};

/** Runs one piece of work in the session. */
export type FencedRun = <T>(work: FencedWork<T>) => Promise<T>;

/**
 * As `inFence`, for pieces of work that follow each other: they share one connection, since a new one starts with empty
 * caches of the catalog (200 migrations took 16 s so). The session is emptied before each piece, and each has the whole
 * time. After a piece that failed no other may be run.
 */
export const inFences = async <T>(db: FenceDb, fence: Fence, work: (run: FencedRun) => Promise<T>): Promise<T> => {
  await refuseWhileAbandoned(db, fence.projectId);
  const spend = async (client: ClientBase): Promise<never> => {
    const run: FencedRun = async (piece) => {
      await freshen(client, fence.timeoutMs);
      return guarded(db, fence, client, piece);
    };
    const [end] = await Promise.allSettled([work(run)]);
    throw new SessionSpent(end);
  };
  const end = await db.use(fence.projectId, fence.role, spend).catch((error: unknown) => {
    if (error instanceof SessionSpent) return error.end as PromiseSettledResult<T>;
    throw error;
  });
  if (end.status === 'rejected') throw end.reason;
  return end.value;
};

/**
 * Runs SQL of a user in a session of its own: nothing of another session is in it, and it is closed afterwards, so that
 * no setting, lock or temporary table outlives it. What lasts too long is stopped, whatever it does about it; what
 * cannot be stopped is left behind, and fails as a `DatabaseError` with 57014.
 * @throws {ServiceError} `dependency_unavailable` while two such statements of the project go on
 * @throws what connecting throws, before `work` began; then what `work` throws
 */
export const inFence = <T>(db: FenceDb, fence: Fence, work: FencedWork<T>): Promise<T> =>
  inFences(db, fence, (run) => run(work));

/**
 * As `inFence`, for work that a client of the API waits for.
 * @throws {CallerGone} when it went away before the work began
 */
export const inCallersFence = async <T>(db: FenceDb, fence: Fence, work: FencedWork<T>): Promise<T> => {
  try {
    return await inFence(db, fence, work);
  } catch (error) {
    throw fence.signal.aborted && error === fence.signal.reason ? new CallerGone('the caller has gone') : error;
  }
};
