import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { Refusal, ServiceError } from '#lib/errors.ts';
import { type Parameter, parametersOf, textsOf } from '#lib/postgres/parameters.ts';
import { lowerPriority } from '#lib/postgres/lower-priority.ts';
import { doneOf } from '#lib/postgres/wire.ts';
import {
  type CappedRows,
  type Described,
  Overflow,
  type ReadColumn,
  consoleRowsText,
  describeStatement,
  readColumns,
  runCapped,
} from './capped-query.ts';
import { endSessionOf, hasAbandoned } from '#domain/data-api/stop-query.ts';
import { type Fence, type FenceDb, type FencedWork, type StoppedBy, inCallersFence } from './fence.ts';
import { inLine, inShortLine } from '#domain/data-api/effort.ts';
import { type Once, onceAsOwner } from './owner-key.ts';
import { connectionLost, sessionEnded, sqlError } from './sql-error.ts';
import { beginsShort, firstWord, isReading, isTransactionCommand, noteLong, shortMs } from './statement-words.ts';

export interface ConsoleQuery {
  readonly projectId: string;
  readonly sql: string;
  /** JSON values for `$1`, `$2`, …; numbers that JavaScript cannot hold as `JSON.rawJSON`. */
  readonly params: readonly unknown[];
  /** Nothing can be written: a transaction READ ONLY, under the role that may only SELECT. */
  readonly readOnly: boolean;
  /** The idempotency key of a statement that may write: it runs once for its key, in one transaction with it. */
  readonly once?: Once | undefined;
}

const timeoutMs = 30_000;
const timeOutState = '57014';

const notPossible = (message: string, hint: string): DataError => new DataError(400, '0A000', message, { hint });

/**
 * Statements that the server would accept and that have no effect, or no possible answer, in a session of one
 * statement.
 */
const refuse = (sql: string): void => {
  const word = firstWord(sql);
  if (word === 'copy') throw notPossible('COPY is not possible here.', 'Use INSERT, or SELECT to read.');
  if (isTransactionCommand(sql)) {
    throw notPossible(
      `${word.toUpperCase()} is not possible here: each query is a transaction of its own.`,
      'Several statements in one transaction: WITH, a function, or DO.',
    );
  }
};

/** @throws {ServiceError} `validation_failed` when values are nested deeper than can be written */
const readParameters = (values: readonly unknown[]): Parameter[] => {
  try {
    return parametersOf(values);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const details = [{ path: 'params', message: 'is nested too deeply' }];
    throw new ServiceError('validation_failed', 'The body is not valid.', { details });
  }
};

const checkCount = ({ parameterTypes: { length } }: Described, params: readonly Parameter[]): void => {
  if (length === params.length) return;
  throw new DataError(400, '08P01', `The statement takes ${length} parameters, and params has ${params.length}.`, {
    hint: 'Write them as $1, $2, … in the statement.',
  });
};

const timedOut = (): DataError =>
  new DataError(504, timeOutState, `The statement took longer than ${timeoutMs / 1000} s and was stopped.`);

/** SQL can raise the same code, as an error of its own. */
const isSessionEnd = ({ code, severity }: DatabaseError): boolean => code === '57P01' && severity === 'FATAL';

/**
 * The fence ends what takes too long; before that the watchdog of the servers ends what takes too much memory or locks.
 */
const endedEarly = (): DataError =>
  new DataError(400, '53200', sessionEnded, {
    hint: 'It was undone. Work on fewer rows at once. If it did little, run it again: the database may have been restarted.',
  });

const failureOf = (error: unknown, sql: string, stoppedBy: StoppedBy): unknown => {
  if (error instanceof Overflow) {
    return new DataError(400, '54000', 'The statement answers more than 32 MB at a stretch. It was undone.', {
      hint: 'Leave RETURNING out, or ask for fewer columns.',
    });
  }
  if (stoppedBy === 'caller') return new CallerGone('the caller has gone');
  if (stoppedBy === 'watchdog') return timedOut();
  if (error instanceof DatabaseError) return isSessionEnd(error) ? endedEarly() : sqlError(error, sql);
  return error instanceof Refusal ? error : connectionLost(error);
};

interface Ran extends CappedRows {
  readonly columns: readonly ReadColumn[];
}

const noStatement = (): DataError => new DataError(400, '42601', 'There is no statement.');

const runIn = async (client: ClientBase, { sql, params, readOnly, once }: ConsoleQuery): Promise<Ran> => {
  const values = readParameters(params);
  // Nothing runs after the one statement: it cannot leave this transaction and go on outside of it.
  if (readOnly) await client.query('begin transaction read only');
  const described = await describeStatement(client, sql);
  checkCount(described, values);
  const columns = await readColumns(client, described.columns);
  const texts = textsOf(values, described.parameterTypes);
  const mayCut = once === undefined && (readOnly || isReading(sql));
  const ran = { columns, ...(await runCapped(client, texts, mayCut)) };
  if (ran.tag === '' && columns.length === 0) throw noStatement();
  return ran;
};

const answerOf = async (ran: Ran): Promise<string> => {
  const { columns, tag } = ran;
  const { text, count } = await consoleRowsText(columns, ran);
  const truncated = ran.truncated || count < ran.rows.length;
  // For rows that came in portions the tag counts the last portion.
  const isRows = columns.length > 0 || count > 0 || tag === null;
  const rest = {
    row_count: isRows ? count : doneOf(tag).rowCount,
    ...(truncated && { truncated }),
    columns: columns.map(({ name, type }) => ({ name, type })),
    command: tag?.replace(/( \d+)+$/, '') ?? null,
  };
  return `{"rows":${text},${JSON.stringify(rest).slice(1)}`;
};

const needsNoTransaction = new Set(['25001', '2D000']);

/** Statements that are refused because a key makes a transaction of the statement. */
const withoutKey = (error: unknown): unknown =>
  error instanceof DataError && needsNoTransaction.has(error.code)
    ? new DataError(error.status, error.code, error.message, {
        details: error.details,
        hint: 'With an Idempotency-Key the statement is one transaction with the key: send it without one.',
      })
    : error;

/** In the transaction that keeps the answer; what the statement may do to it is refused before, or by the server. */
const answerOnce = async (client: ClientBase, query: ConsoleQuery, once: Once): Promise<string> => {
  await client.query('begin');
  const text = await onceAsOwner(client, once, async () => answerOf(await runIn(client, query)));
  await client.query('commit');
  return text;
};

type Ended = Ran | string;

const workOf =
  (db: FenceDb, query: ConsoleQuery): FencedWork<Ended> =>
  async (client, stoppedBy) => {
    const { projectId, sql, once } = query;
    // The time for which it will keep a processor busy is unknown; its session is used for nothing else.
    await lowerPriority(client);
    try {
      return once === undefined ? await runIn(client, query) : await answerOnce(client, query, once);
    } catch (error) {
      if (!(error instanceof DatabaseError)) await endSessionOf(db, { projectId, client });
      const failure = failureOf(error, sql, stoppedBy());
      throw once === undefined ? failure : withoutKey(failure);
    }
  };

const isTimeOut = (error: unknown): boolean => error instanceof DataError && error.code === timeOutState;

/** @returns null when it takes longer than a short statement may; nothing of it is left then */
const runShort = async (db: FenceDb, query: ConsoleQuery, fence: Fence): Promise<Ended | null> => {
  const { projectId, sql } = query;
  // SQL sees the same time-out as ever.
  const short = { ...fence, stopAfterMs: shortMs };
  try {
    return await inShortLine(short, () => inCallersFence(db, short, workOf(db, query)));
  } catch (error) {
    // A statement that could not be stopped goes on: it is not started a second time.
    if (!isTimeOut(error) || hasAbandoned(projectId)) throw error;
    noteLong(projectId, sql);
    return null;
  }
};

const runLong = (db: FenceDb, query: ConsoleQuery, fence: Fence): Promise<Ended> =>
  inLine(fence, () => inCallersFence(db, fence, workOf(db, query)));

/**
 * Runs one statement in a fresh session (contract, section 5): as the owner, or so that nothing can be written. One or
 * two of a project that take longer than a second run at a time, others wait in line; those that are shorter have
 * places of their own. At most 30 s; at most 10,000 rows or 16 MB, then `truncated: true` and `row_count` is what came
 * back.
 * @returns JSON text: `{rows, row_count, truncated?, columns: [{name, type}], command}`
 * @throws {DataError} 400 with the SQLSTATE as code, 504 `57014`
 * @throws {ServiceError} `dependency_unavailable`, `validation_failed`, `idempotency_mismatch`
 */
export const runConsoleQuery = async (db: FenceDb, query: ConsoleQuery, signal: AbortSignal): Promise<string> => {
  const { projectId, sql, readOnly } = query;
  refuse(sql);
  const fence: Fence = { projectId, role: readOnly ? 'reader' : 'owner', timeoutMs, signal };
  const short = beginsShort(projectId, sql) ? await runShort(db, query, fence) : null;
  const ended = short ?? (await runLong(db, query, fence));
  return typeof ended === 'string' ? ended : answerOf(ended);
};
