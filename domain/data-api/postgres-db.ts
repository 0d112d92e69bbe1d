import { type ClientBase, DatabaseError } from 'pg';
import { hasAbandoned, noteAbandoned, refuseWhileAbandoned, whileCallerWaits } from './stop-query.ts';
import { createLine, maxAtOnce, Effort, isHeavy, noteCourse } from './effort.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { type Bound, type PipelineLimits, runPipeline } from '#lib/postgres/pipeline.ts';
import { lowerPriority } from '#lib/postgres/lower-priority.ts';
import { NoAnswer, type WatchLimits } from '#lib/postgres/watch.ts';
import { processOf } from '#lib/postgres/wire.ts';
import { abortSignalOf } from '#lib/disconnection.ts';
import { leavesUsable } from '#lib/tenant-db.ts';
import type { DataCaller, DataDb, DataRun, LinesDb, RunOne, RunRows, TextRow, Sql } from './data-api.ts';
import { CallerGone, DataError } from './errors.ts';
import { readLines } from './lines.ts';
import { loginOf, preludeOf } from './prelude.ts';

export interface DataDbDeps {
  readonly tenantDb: Pick<ProjectDb, 'use' | 'useAtLowPriority' | 'lease' | 'endSession'>;
  /** The version of a project's schema that requests are read by just now. */
  readonly schemaVersion: (projectId: string) => string;
  /** Left out: 32 MB, and more time than the server gives a statement. */
  readonly bounds?: WatchLimits;
}

const usualBounds: WatchLimits = { maxBytes: 32 * 1024 * 1024, timeoutMs: 40_000 };

const limitsOf = ({ bounds = usualBounds, schemaVersion }: DataDbDeps, projectId: string): PipelineLimits => ({
  ...bounds,
  schemaVersion: schemaVersion(projectId),
});

/** No `Refusal` and no error of the server: the connection is closed. */
class SessionSpoilt extends Error {
  override readonly name = 'SessionSpoilt';

  constructor(cause: Error) {
    super('a session was left in a state that it cannot be used in', { cause });
  }
}

const someRows = (rows: readonly TextRow[] | undefined): readonly TextRow[] => {
  if (rows === undefined || rows.length === 0) throw new Error('a statement of the data API did not answer a row');
  return rows;
};

const onlyRow = ([row, ...others]: readonly TextRow[]): TextRow => {
  if (row === undefined || others.length > 0) throw new Error('a statement of the data API did not answer one row');
  return row;
};

interface DataSession {
  readonly caller: DataCaller;
  readonly run: DataRun;
  readonly client: ClientBase;
  readonly limits: PipelineLimits;
  readonly effort: Effort;
}

const rollback = async ({ client, limits }: DataSession, cause: unknown): Promise<void> => {
  // A broken connection rolls back by itself.
  if (cause instanceof CallerGone || (!(cause instanceof DatabaseError) && client.getTransactionStatus() === null))
    return;
  await runPipeline(client, [{ text: 'rollback', params: [] }], limits).catch(() => undefined);
};

const oneStatement = async ({ caller, run, client, limits }: DataSession, sql: Sql): Promise<readonly TextRow[]> => {
  const prelude = preludeOf(caller, run);
  const answers = await runPipeline(client, [...prelude, sql], limits);
  return someRows(answers[prelude.length]);
};

const inTransaction = async <T>(session: DataSession, work: (one: RunOne, rows: RunRows) => Promise<T>): Promise<T> => {
  const { caller, run, client, limits } = session;
  const prelude = [{ text: 'begin', params: [] }, ...preludeOf(caller, run)];
  const runRows: RunRows = async (sql) => {
    const before = prelude.splice(0);
    const answers = await runPipeline(client, [...before, sql], limits);
    return someRows(answers[before.length]);
  };
  const runOne: RunOne = async (sql) => onlyRow(await runRows(sql));
  try {
    const result = await work(runOne, runRows);
    if (client.getTransactionStatus() === 'E') throw new Error('a failure in a transaction was passed over');
    if (prelude.length === 0) await runPipeline(client, [{ text: 'commit', params: [] }], limits);
    return result;
  } catch (error) {
    await rollback(session, error);
    throw error;
  }
};

// A session that cannot begin as it should: SQL of the project has made it read-only, or holds it in a transaction.
const spoilt = new Set(['25001', '25006']);

/** The caller's answer, once the connection is given back or closed. */
const rethrow = (error: unknown): never => {
  if (error instanceof AnswerTooLarge)
    throw new DataError(400, '54000', error.message, { hint: 'Ask for fewer rows or columns.' });
  throw error instanceof SessionSpoilt ? error.cause : error;
};

const runInSession = async <T>(
  deps: DataDbDeps,
  session: DataSession,
  work: (session: DataSession) => Promise<T>,
): Promise<T> => {
  const { caller, run, client } = session;
  try {
    const waiting = { projectId: caller.projectId, client, signal: run.signal };
    return await whileCallerWaits(deps.tenantDb, waiting, () => work(session));
  } catch (error) {
    if (error instanceof NoAnswer) noteAbandoned(caller.projectId, processOf(client));
    const isSpoilt = run.mode === 'write' && error instanceof DatabaseError && spoilt.has(error.code ?? '');
    throw isSpoilt ? new SessionSpoilt(error) : error;
  }
};

// State that outlives a statement. Rolling back ends neither locks of the session nor statements that SQL prepared.
const cleaning: readonly Bound[] = [
  'reset all',
  'reset role',
  'close all',
  'unlisten *',
  'discard temp',
  'discard sequences',
  'select pg_catalog.pg_advisory_unlock_all()',
  'select 1 from pg_catalog.pg_prepared_statements where from_sql limit 1',
].map((text) => ({ text, params: [] }));

/** SQL of the project prepared a statement, maybe in place of one of ours: the session is closed. */
class SessionTaken extends Error {
  override readonly name = 'SessionTaken';
}

/** Leaves a session as it began, but for our prepared statements: 'discard all' would cost every request its plans. */
const cleanSession = async (client: ClientBase, limits: PipelineLimits): Promise<void> => {
  const answers = await runPipeline(client, cleaning, limits);
  if ((answers[cleaning.length - 1]?.length ?? 0) > 0)
    throw new SessionTaken('the session has statements of the project');
};

/** Its statement took long and was given a lower priority, which cannot be taken back: the session is closed. */
class SessionSlowed extends Error {
  override readonly name = 'SessionSlowed';
}

/** Processor time that work takes, once it is slow, before it is given a lower priority. */
const lowerAfterMs = 50;

/** How a piece of work is known to be: unknown work begins at the usual priority. */
type Weight = 'usual' | 'heavy';

interface Lease<T> {
  readonly session: (of: Pick<DataSession, 'client' | 'limits' | 'effort'>) => Promise<T>;
  readonly limits: PipelineLimits;
  /** Whether SQL of the project may have left something in the session. */
  readonly cleans: boolean;
  /** Whether the session is given a lower priority when its statement takes long. */
  readonly mayLower: boolean;
}

/**
 * Answers as soon as the work is done, and cleans the session behind the caller's back. After the commit, because
 * deferred triggers ask for the claims, too; and after a failure as well.
 */
const answerThenClean = <T>({ session, limits, cleans, mayLower }: Lease<T>) => {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const use = async (client: ClientBase): Promise<void> => {
    let slowed: Promise<boolean> | undefined;
    const effort = new Effort(client);
    const onSlow = (): void => {
      if (slowed === undefined && effort.follow() >= lowerAfterMs && mayLower) slowed = lowerPriority(client);
    };
    try {
      resolve(await session({ client, limits: { ...limits, onSlow }, effort }));
    } catch (error) {
      if (!leavesUsable(error)) throw error;
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- as it was thrown
      reject(error);
    }
    if (slowed !== undefined && (await slowed)) throw new SessionSlowed('the session has a lower priority');
    if (cleans) await cleanSession(client, limits);
  };
  return { promise, use, reject };
};

/**
 * Reading tables with a secret key runs no policies and no triggers; cleaning after it would halve the rate of reads.
 */
const runsProjectSql = ({ mode, request }: DataRun): boolean => mode === 'write' || request !== undefined;

/**
 * Lends a connection. What SQL of the project may have left in the session is undone before anybody else has it:
 * triggers run such SQL on behalf of secret keys, too.
 * @throws {ServiceError} `dependency_unavailable` while two statements of the project go on that nothing could
 * interrupt
 */
const lent = async <T>(
  deps: DataDbDeps,
  { caller, run, weight }: Pick<DataSession, 'caller' | 'run'> & { readonly weight: Weight },
  work: (session: DataSession) => Promise<T>,
): Promise<T> => {
  const { projectId } = caller;
  if (hasAbandoned(projectId)) await refuseWhileAbandoned(deps.tenantDb, projectId);
  const limits = limitsOf(deps, projectId);
  const { promise, use, reject } = answerThenClean({
    session: (of) => runInSession(deps, { caller, run, ...of }, work),
    limits,
    cleans: runsProjectSql(run),
    mayLower: weight === 'usual',
  });
  const lend = weight === 'usual' ? deps.tenantDb.use : deps.tenantDb.useAtLowPriority;
  // After the answer no caller learns of a failure; the connection is not lent again.
  lend(projectId, loginOf(caller), use).catch(reject);
  return promise.catch(rethrow);
};

/** Heavy statements of a project wait for each other, so that they do not take all processors; others know no line. */
const heavyLine = createLine(maxAtOnce);

/**
 * Runs one statement, and records whether it is heavy.
 * @throws {ServiceError} `dependency_unavailable` when it is heavy and it was not its turn within 40 s
 */
const lentOne = async (
  deps: DataDbDeps,
  { caller, run }: Pick<DataSession, 'caller' | 'run'>,
  sql: Sql,
): Promise<readonly TextRow[]> => {
  const { projectId } = caller;
  const measured = async (session: DataSession): Promise<readonly TextRow[]> => {
    let rows: readonly TextRow[] | null = null;
    try {
      rows = await oneStatement(session, sql);
      return rows;
    } finally {
      noteCourse(projectId, sql, { ms: session.effort.total(), rows });
    }
  };
  if (!isHeavy(projectId, sql)) return lent(deps, { caller, run, weight: 'usual' }, measured);
  const inLine = { projectId, role: loginOf(caller), signal: abortSignalOf(run.signal) };
  return heavyLine(inLine, () => lent(deps, { caller, run, weight: 'heavy' }, measured));
};

/** The data API's statements over the project's connections: pipelined, so that role and claims cost no round trip. */
export const createDataDb = (deps: DataDbDeps): DataDb & LinesDb => ({
  one: async (caller, run, sql) => onlyRow(await lentOne(deps, { caller, run }, sql)),
  rows: (caller, run, sql) => lentOne(deps, { caller, run }, sql),
  transaction: (caller, run, work) =>
    lent(deps, { caller, run, weight: 'usual' }, (session) => inTransaction(session, work)),
  lines: (caller, run, request) =>
    readLines({ tenantDb: deps.tenantDb, limits: (projectId) => limitsOf(deps, projectId) }, { caller, run }, request),
});
