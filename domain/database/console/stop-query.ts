import { setTimeout as pause } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { cancelQuery } from '#lib/postgres/cancel-query.ts';
import { processOf } from '#lib/postgres/wire.ts';

const catchGraceMs = 2000;

export interface RunningQuery {
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
