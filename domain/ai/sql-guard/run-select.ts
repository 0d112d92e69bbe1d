import type { ClientBase } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { consoleRowsText, describeStatement, readColumns, runCapped } from '#domain/database/console/capped-query.ts';
import { type FenceDb, inCallersFence } from '#domain/database/console/fence.ts';
import { checkSelectSql } from './check.ts';
import { ranFailure } from './failure.ts';
import { notAllowed, requireAllowed } from './refusal.ts';
import { reasonsOnServer } from './server-check.ts';

const timeoutMs = 5000;
const maxRows = 1000;

export interface SelectedRows {
  /** JSON text: an array of objects. */
  readonly text: string;
  readonly count: number;
  /** There were more than 1,000 rows, or 16 MB. */
  readonly truncated: boolean;
}

const readIn = async (client: ClientBase, sql: string): Promise<SelectedRows> => {
  const { uses } = requireAllowed(checkSelectSql(sql));
  await client.query('begin transaction read only');
  const reasons = await reasonsOnServer(client, uses);
  if (reasons.length > 0) throw notAllowed(reasons);
  const columns = await readColumns(client, (await describeStatement(client, sql)).columns);
  const ran = await runCapped(client, [], true, maxRows);
  const { text, count } = await consoleRowsText(columns, ran);
  return { text, count, truncated: ran.truncated || count < ran.rows.length };
};

/**
 * Runs a query that a model has written, if the guard allows it: under the role that may only SELECT, READ ONLY, at most
 * 5 s and 1,000 rows, in a session that is closed afterwards, so that nothing is ever committed.
 * @throws {ServiceError} `sql_not_allowed`, `dependency_unavailable`
 * @throws {DataError} with the SQLSTATE as code; 57014 when it took too long
 */
export const runGeneratedSelect = async (
  tenantDb: FenceDb,
  { projectId, sql }: { readonly projectId: string; readonly sql: string },
  signal: AbortSignal,
): Promise<SelectedRows> => {
  // Before a connection is taken.
  requireAllowed(checkSelectSql(sql));
  const fence = { projectId, role: 'reader', timeoutMs, signal } as const;
  return inCallersFence(tenantDb, fence, async (client, stoppedBy) => {
    try {
      return await readIn(client, sql);
    } catch (error) {
      if (stoppedBy() === 'caller') throw new CallerGone('the caller has gone');
      if (stoppedBy() === 'watchdog') throw new DataError(504, '57014', 'The query took longer than 5 s.');
      throw ranFailure(error, sql, 'It changes nothing. Send it again.');
    }
  });
};
