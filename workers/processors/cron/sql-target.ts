import { type ClientBase, DatabaseError } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import type { JobOutcome } from '#queues/define.ts';
import { endSessionOf, stopQuery } from '#domain/database/stop-query.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runCounting } from './counting-query.ts';
import { failed, succeeded } from './outcomes.ts';

export interface SqlTargetDeps {
  readonly tenantDb: Pick<ProjectDb, 'use' | 'endSession'>;
}

export interface SqlOrder {
  readonly projectId: string;
  readonly sql: string;
}

const timeoutMs = 30_000;
// The SQL can lift its own time-out: then the watchdog ends it.
const watchdogMs = timeoutMs + 2000;

/** Carries the outcome out of `use`, which closes the connection of work that throws. */
class SessionSpent extends Error {
  override readonly name = 'SessionSpent';
  readonly outcome: JobOutcome;

  constructor(outcome: JobOutcome) {
    super('a session that ran SQL of the user is not lent again');
    this.outcome = outcome;
  }
}

const failureOf = (error: unknown): JobOutcome => {
  if (error instanceof DatabaseError) return failed(error.code ?? 'sql_error', error.message);
  if (error instanceof AnswerTooLarge) {
    return failed(
      'result_too_large',
      'The SQL answered more than 16 MB, or one row of more than 1 MB. It was stopped.',
    );
  }
  // The SQL was sent: whether it took effect is not known, so it is not sent again.
  return failed('connection_lost', 'The connection to the database broke while the SQL ran.');
};

/** What the server did not end itself may go on there, without anybody to listen. */
const outcomeOf = async ({ tenantDb }: SqlTargetDeps, { projectId, sql }: SqlOrder, client: ClientBase) => {
  try {
    const { rowCount, command } = await runCounting(client, sql);
    return succeeded({ row_count: rowCount, command });
  } catch (error) {
    if (!(error instanceof DatabaseError)) await endSessionOf(tenantDb, { projectId, client });
    return failureOf(error);
  }
};

/**
 * Runs SQL as the project's owner role, one or several statements, which then are one transaction. The session is closed
 * afterwards: its settings, locks and temporary tables outlive no run.
 * @throws what connecting throws: nothing was run yet
 */
export const runSqlTarget = async (deps: SqlTargetDeps, order: SqlOrder, signal: AbortSignal): Promise<JobOutcome> => {
  const work = async (client: ClientBase): Promise<never> => {
    await client.query(`set statement_timeout = ${timeoutMs}`);
    const over = new AbortController();
    const stop = (): void => void stopQuery(deps.tenantDb, { projectId: order.projectId, client, ended: over.signal });
    const watchdog = setTimeout(stop, watchdogMs);
    signal.addEventListener('abort', stop, { once: true });
    try {
      signal.throwIfAborted();
      throw new SessionSpent(await outcomeOf(deps, order, client));
    } finally {
      over.abort();
      clearTimeout(watchdog);
      signal.removeEventListener('abort', stop);
    }
  };
  return deps.tenantDb.use(order.projectId, 'owner', work).catch((error: unknown) => {
    if (error instanceof SessionSpent) return error.outcome;
    throw error;
  });
};
