import { type ClientBase, DatabaseError } from 'pg';
import { type Change, type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { type FenceDb, inFence } from '#domain/database/console/fence.ts';
import { mayWriteRows, mentionsSchemaChange } from '#domain/database/console/statement-words.ts';
import { endSessionOf } from '#domain/data-api/stop-query.ts';
import type { JobOutcome } from '#queues/define.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runCounting } from './counting-query.ts';
import { failed, succeeded } from './outcomes.ts';

export interface SqlTargetDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

export interface SqlOrder {
  readonly projectId: string;
  readonly sql: string;
}

const timeoutMs = 30_000;

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

/** A statement that the server did not end itself may go on there, without anybody to read its result. */
const outcomeOf = async ({ tenantDb }: SqlTargetDeps, { projectId, sql }: SqlOrder, client: ClientBase) => {
  try {
    const { rowCount, command } = await runCounting(client, sql);
    return succeeded({ row_count: rowCount, command });
  } catch (error) {
    if (!(error instanceof DatabaseError)) await endSessionOf(tenantDb, { projectId, client });
    return failureOf(error);
  }
};

const changeOf = (sql: string): Change => ({ schema: mentionsSchemaChange(sql), rows: mayWriteRows(sql) });

/**
 * Runs SQL as the project's owner role, one or several statements, which then are one transaction. The session is
 * closed afterwards: its settings, locks and temporary tables outlive no run.
 * @throws what connecting throws: nothing was run yet
 */
export const runSqlTarget = async (deps: SqlTargetDeps, order: SqlOrder, signal: AbortSignal): Promise<JobOutcome> => {
  const { projectId, sql } = order;
  try {
    return await inFence(deps.tenantDb, { projectId, role: 'owner', timeoutMs, signal }, (client) =>
      outcomeOf(deps, order, client),
    );
  } finally {
    noteChange(deps, projectId, changeOf(sql));
  }
};
