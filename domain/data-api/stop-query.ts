import { setTimeout as pause } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { cancelQuery } from '#lib/postgres/cancel-query.ts';
import { processOf } from '#lib/postgres/wire.ts';
import { ServiceError } from '#lib/errors.ts';
import { CallerGone } from './errors.ts';

const catchGraceMs = 2000;

interface RunningQuery {
  readonly projectId: string;
  readonly client: ClientBase;
  /** Aborted when the query has ended. */
  readonly ended: AbortSignal;
}

/** Ends the session of a connection, whatever it does; one that is gone, or a server that is, is no matter. */
export const endSessionOf = async (
  tenantDb: Pick<ProjectDb, 'endSession'>,
  { projectId, client }: Pick<RunningQuery, 'projectId' | 'client'>,
): Promise<void> => {
  await tenantDb.endSession(projectId, processOf(client)).catch(() => undefined);
};

/**
 * Stops what a connection runs. SQL can catch its cancellation and go on; it cannot catch the end of its session, which
 * needs no connection of the project: it may have none left.
 */
export const stopQuery = async (tenantDb: Pick<ProjectDb, 'endSession'>, query: RunningQuery): Promise<void> => {
  await cancelQuery(query.client);
  while (await pause(catchGraceMs, true, { signal: query.ended, ref: false }).catch(() => false)) {
    await endSessionOf(tenantDb, query);
  }
};

/**
 * Stops what runs when the caller goes away; what stopped may be hit by a late cancellation, so it is not lent again.
 */
export const whileCallerWaits = async <T>(
  tenantDb: Pick<ProjectDb, 'endSession'>,
  { projectId, client, signal }: Omit<RunningQuery, 'ended'> & { readonly signal: Disconnection },
  work: () => Promise<T>,
): Promise<T> => {
  if (signal.aborted) throw new CallerGone('the caller has gone');
  let ended: AbortController | undefined;
  const stop = (): void => {
    ended = new AbortController();
    void stopQuery(tenantDb, { projectId, client, ended: ended.signal });
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await work();
  } catch (error) {
    throw signal.aborted ? new CallerGone('the caller has gone') : error;
  } finally {
    ended?.abort();
    signal.removeEventListener('abort', stop);
  }
};

interface Abandoned {
  readonly processId: number;
  readonly since: number;
}

/** The number of such statements after which no more is started: each of them takes one of the machine's cores. */
const maxPerProject = 2;
/** After that the number may be another session's. */
const forgetMs = 3_600_000;

/** By project: sessions that this process stopped and left behind, since they did not end. */
const abandoned = new Map<string, Abandoned[]>();

export const noteAbandoned = (projectId: string, processId: number): void => {
  abandoned.set(projectId, [...(abandoned.get(projectId) ?? []), { processId, since: Date.now() }]);
};

/** Whether `refuseWhileAbandoned` has to be asked; costs nothing where all is well. */
export const hasAbandoned = (projectId: string): boolean => abandoned.has(projectId);

const tooMany = (count: number): ServiceError =>
  new ServiceError(
    'dependency_unavailable',
    `${count} earlier statements of this project still run although they were stopped: the server cannot interrupt what they do.`,
    { hint: 'No other one is begun until they have ended by themselves.', headers: { 'Retry-After': '30' } },
  );

/**
 * Refuses SQL of a project whose stopped statements go on: some computations of a server check for no interruption
 * until they are done, neither for a cancellation nor for the end of the session.
 * @throws {ServiceError} `dependency_unavailable`
 */
export const refuseWhileAbandoned = async (db: Pick<ProjectDb, 'endSession'>, projectId: string): Promise<void> => {
  const known = abandoned.get(projectId) ?? [];
  if (known.length < maxPerProject) return;
  const recent = known.filter(({ since }) => Date.now() - since < forgetMs);
  // A server that cannot be asked will refuse the statement itself.
  const live = await Promise.all(
    recent.map(async ({ processId }) => (await db.endSession(projectId, processId).catch(() => false)) === true),
  );
  const gone = new Set(known.filter((session) => live[recent.indexOf(session)] !== true));
  const left = (abandoned.get(projectId) ?? []).filter((session) => !gone.has(session));
  if (left.length > 0) abandoned.set(projectId, left);
  else abandoned.delete(projectId);
  if (left.length >= maxPerProject) throw tooMany(left.length);
};
