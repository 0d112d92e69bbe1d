import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { endSessionOf } from '#domain/data-api/stop-query.ts';
import { inLine } from '#domain/data-api/effort.ts';
import { breaksBefore, codePointsOf, unitsOf } from '#lib/code-points.ts';
import { Refusal } from '#lib/errors.ts';
import { createPause } from '#lib/in-turns.ts';
import { lowerPriority } from '#lib/postgres/lower-priority.ts';
import { doneOf } from '#lib/postgres/wire.ts';
import { Overflow, consoleRowsText, describeStatement, readColumns, runCapped } from '../console/capped-query.ts';
import { type Fence, type FenceDb, type StoppedBy, inFence } from '../console/fence.ts';
import { connectionLost, sqlError } from '../console/sql-error.ts';
import { isTransactionCommand } from '../console/statement-words.ts';
import { insertsOf, readCopied } from './copied-rows.ts';
import { type ScriptStatement, splitScript } from './split.ts';

/** Several statements in one transaction, as the project's owner: all of it is kept, or nothing. */
export interface Script {
  readonly projectId: string;
  readonly sql: string;
  /** Everything runs and nothing is kept. */
  readonly dryRun: boolean;
}

/** All statements together. */
const timeoutMs = 300_000;
/** Rows that are shown of one statement. */
const maxRows = 1000;
/** The rows that are shown of all statements and their columns, as JSON. */
const maxShownLength = 16 * 1024 * 1024;

interface Done {
  readonly command: string | null;
  readonly rowCount: number;
  /** JSON text. */
  readonly fields: string;
  readonly rows: string;
  readonly truncated: boolean;
}

const noTransactions = (): DataError =>
  new DataError(400, '0A000', 'Transaction commands are not possible in a script: it is one transaction already.', {
    hint: 'Leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT out.',
  });

const runOne = async (client: ClientBase, sql: string, roomLeft: number): Promise<Done> => {
  const { columns: described } = await describeStatement(client, sql);
  const columns = await readColumns(client, described);
  const ran = await runCapped(client, [], false, maxRows);
  const shown = await consoleRowsText(columns, ran);
  const fields = JSON.stringify(columns.map(({ name, type }) => ({ name, type })));
  const fits = fields.length + shown.text.length <= roomLeft;
  const isRows = columns.length > 0;
  return {
    command: ran.tag?.replace(/( \d+)+$/, '') ?? null,
    rowCount: isRows && ran.tag === null ? shown.count : doneOf(ran.tag ?? '').rowCount,
    // Thousands of statements may have as many columns.
    fields: fields.length <= roomLeft ? fields : '[]',
    rows: fits ? shown.text : '[]',
    truncated: ran.truncated || !fits || shown.count < ran.rows.length,
  };
};

const runCopied = async (client: ClientBase, sql: string, text: string): Promise<Done> => {
  let rowCount = 0;
  for await (const copied of readCopied(sql, text)) {
    for (const insert of insertsOf(copied)) await client.query(insert.sql, insert.values);
    rowCount += copied.rows.length;
  }
  return { command: 'COPY', rowCount, fields: '[]', rows: '[]', truncated: false };
};

const tooLong = (): DataError =>
  new DataError(504, '57014', `The script took longer than ${timeoutMs / 1000} s and was stopped. Nothing was kept.`);

const explained = (error: unknown, { sql, copied }: ScriptStatement, stoppedBy: StoppedBy): unknown => {
  if (stoppedBy === 'caller') return new CallerGone('the caller has gone');
  if (stoppedBy === 'watchdog') return tooLong();
  if (error instanceof Overflow)
    return new DataError(400, '54000', 'A statement answers more than 32 MB at a stretch.');
  if (error instanceof DatabaseError) return sqlError(error, copied === null ? sql : undefined);
  return error instanceof Refusal ? error : connectionLost(error);
};

/** The failure of a statement, with its number and its place in the whole script. */
const placed = (error: unknown, script: string, statement: ScriptStatement, number: number): unknown => {
  if (!(error instanceof DataError)) return error;
  const own = (error.details ?? {}) as { readonly position?: number };
  const inside = own.position === undefined ? 0 : unitsOf(statement.sql, own.position - 1);
  const position = own.position === undefined ? null : codePointsOf(script.slice(0, statement.at)) + own.position;
  const details = { ...own, statement: number, position, line: breaksBefore(script, statement.at + inside) + 1 };
  return new DataError(error.status, error.code, error.message, { details, hint: error.hint, headers: error.headers });
};

const runAll = async (client: ClientBase, { sql: script }: Script, stoppedBy: () => StoppedBy): Promise<Done[]> => {
  const done: Done[] = [];
  const pause = createPause();
  let shown = 0;
  for (const statement of splitScript(script)) {
    if (statement === null) {
      await pause();
      continue;
    }
    try {
      const { sql, wordAt, copied } = statement;
      if (isTransactionCommand(sql.slice(wordAt))) throw noTransactions();
      const one =
        copied === null ? await runOne(client, sql, maxShownLength - shown) : await runCopied(client, sql, copied.text);
      shown += one.rows.length + one.fields.length;
      done.push(one);
    } catch (error) {
      throw placed(explained(error, statement, stoppedBy()), script, statement, done.length + 1);
    }
  }
  return done;
};

const answerOf = (done: readonly Done[], dryRun: boolean): string => {
  const statements = done.map(
    ({ command, rowCount, fields, rows, truncated }) =>
      `{"command":${JSON.stringify(command)},"row_count":${rowCount},"fields":${fields},"rows":${rows},"truncated":${truncated}}`,
  );
  return `{"statements":[${statements.join(',')}],"dry_run":${dryRun}}`;
};

/**
 * Runs a script in one transaction (contract, section 13).
 * @returns JSON text: `{statements: [{command, row_count, fields, rows, truncated}], dry_run}`
 * @throws {DataError} with the SQLSTATE as code, and in `details` the statement (from 1), position and line in the script
 */
export const runScript = (db: FenceDb, script: Script, signal: AbortSignal): Promise<string> => {
  const fence: Fence = { projectId: script.projectId, role: 'owner', timeoutMs, signal };
  return inLine(fence, () =>
    inFence(db, fence, async (client, stoppedBy) => {
      await lowerPriority(client);
      try {
        await client.query('begin');
        const done = await runAll(client, script, stoppedBy);
        // Deferred constraints are checked also when nothing is kept.
        await client.query('set constraints all immediate').catch((error: unknown) => {
          throw error instanceof DatabaseError ? sqlError(error) : connectionLost(error);
        });
        await client.query(script.dryRun ? 'rollback' : 'commit');
        return answerOf(done, script.dryRun);
      } catch (error) {
        if (!(error instanceof DatabaseError)) await endSessionOf(db, { projectId: script.projectId, client });
        throw error;
      }
    }),
  );
};
