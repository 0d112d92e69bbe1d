import { type ClientBase, DatabaseError } from 'pg';
import { DataError, toDataError } from '#domain/data-api/errors.ts';
import { createHash } from 'node:crypto';
import { breaksBefore, unitsOf } from '#lib/code-points.ts';
import { ServiceError } from '#lib/errors.ts';
import { quoteInTurns } from '#lib/postgres/quote.ts';
import { type FenceDb, type FencedRun, inFences } from './console/fence.ts';
import { type Once, earlierAnswer, onceAsOwner } from './console/owner-key.ts';

/** A step that was applied. */
interface AppliedMigration {
  readonly name: string;
  readonly checksum: string;
  readonly applied_at: Date;
  readonly duration_ms: number;
}

/** In the order in which they were applied. */
export const listApplied = async (
  client: ClientBase,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ migrations: AppliedMigration[]; total: number }> => {
  const count = await client.query<{ total: number }>(
    'select pg_catalog.count(*)::int as total from plinth_migrations.applied',
  );
  const { rows } = await client.query<AppliedMigration>(
    `select name, checksum, applied_at, duration_ms from plinth_migrations.applied order by position limit $1 offset $2`,
    [limit, offset],
  );
  return { migrations: rows, total: count.rows[0]?.total ?? 0 };
};

/** The checksums of those among `names` that were applied. */
const appliedAmong = async (client: ClientBase, names: readonly string[]): Promise<Map<string, string>> => {
  const { rows } = await client.query<Pick<AppliedMigration, 'name' | 'checksum'>>(
    'select name, checksum from plinth_migrations.applied where name operator(pg_catalog.=) any ($1::pg_catalog.text[])',
    [names],
  );
  return new Map(rows.map(({ name, checksum }) => [name, checksum]));
};

/** Records a step within the transaction that ran it. */
const recordApplied = async (
  client: ClientBase,
  of: Pick<AppliedMigration, 'name' | 'checksum' | 'duration_ms'>,
): Promise<void> => {
  await client.query('select plinth_migrations.record($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int4)', [
    of.name,
    of.checksum,
    of.duration_ms,
  ]);
};

// Any number that no other lock uses; the lock is of this database alone.
const pushLock = 7_245_131;

/** Waits for other pushes. The lock ends with the transaction, and the step's SQL cannot give it back earlier. */
const lockPushes = async (client: ClientBase, waitMs: number): Promise<void> => {
  await client.query(
    `set local lock_timeout = ${waitMs}; select pg_catalog.pg_advisory_xact_lock(${pushLock}); set local lock_timeout to default`,
  );
};

/** The step that failed, and what was done before it. */
interface FailedStep {
  readonly name: string;
  /** Its place in the list, from 1. */
  readonly step: number;
  readonly sql: string;
  readonly applied: readonly string[];
}

const noTransaction =
  'A migration is one transaction, and this cannot run in one. Leave out CONCURRENTLY, or run it by itself as a query.';
const isTransaction = 'Each migration is one transaction already: leave out BEGIN, COMMIT, ROLLBACK and SAVEPOINT.';

/** Hints for statements that a step cannot contain, by the server's messages. */
const hints: readonly (readonly [code: string, message: RegExp, hint: string])[] = [
  ['25001', /cannot (?:be executed from a function|run inside a transaction block)/, noTransaction],
  ['0A000', /^EXECUTE of transaction commands/, isTransaction],
  ['2D000', /./, isTransaction],
  ['0A000', /^EXECUTE of SELECT \.\.\. INTO/, 'Write it as CREATE TABLE … AS SELECT …'],
  ['0A000', /^cannot COPY to\/from client/, 'Nothing comes after the SQL that could be copied: use INSERT.'],
];

const hintOf = ({ code, message }: DatabaseError): string | null =>
  hints.find(([state, words]) => state === code && words.test(message))?.[2] ?? null;

/** From 1, in characters of the step's SQL; null when the failure lies elsewhere, as in a function that it calls. */
const positionOf = (error: DatabaseError, sql: string): number | null => {
  const { internalPosition, internalQuery } = error;
  return internalPosition !== undefined && internalQuery === sql ? Number(internalPosition) : null;
};

const lineOf = (sql: string, position: number | null): number | null =>
  position === null ? null : breaksBefore(sql, unitsOf(sql, position - 1)) + 1;

/** SQLSTATEs of the user's SQL are 400, its time-out 504; the platform's own refusals keep their status. */
const statusOf = ({ code, status }: DataError): number => {
  if (code === '57014') return 504;
  return /^[0-9A-Z]{5}$/.test(code) ? 400 : status;
};

const tookTooLong = (limitMs: number): DatabaseError =>
  Object.assign(new DatabaseError(`the migration took more than ${limitMs / 1000} s`, 0, 'error'), {
    severity: 'ERROR',
    code: '57014',
  });

/** The server's refusal of a step, with its position. Any other value is returned as it is. */
const toStepError = (error: unknown, { name, step, sql, applied }: FailedStep): unknown => {
  const base = toDataError(error, { projectId: '', role: 'service', claims: '' });
  if (!(error instanceof DatabaseError) || !(base instanceof DataError)) return base;
  const position = positionOf(error, sql);
  const details = {
    migration: name,
    step,
    position,
    line: lineOf(sql, position),
    detail: error.detail ?? null,
    applied,
  };
  return new DataError(statusOf(base), base.code, base.message, { details, hint: base.hint ?? hintOf(error) });
};

/** One step of the project's own: SQL, of one or several statements. */
export interface MigrationStep {
  readonly name: string;
  readonly sql: string;
}

interface Pushed {
  readonly applied: readonly string[];
  /** Had been applied before, with the same SQL. */
  readonly skipped: readonly string[];
}

const stepTimeoutMs = 60_000;
const lockWaitMs = 30_000;

export const checksumOf = (sql: string): string => createHash('sha256').update(sql).digest('hex');

const changed = (name: string): ServiceError =>
  new ServiceError('migration_changed', `The migration ${name} was applied with other SQL.`, {
    details: { migration: name },
    hint: 'Leave applied migrations as they are, and put the change into a new one.',
  });

const wasApplied = (known: ReadonlyMap<string, string>, { name, sql }: MigrationStep): boolean => {
  const checksum = known.get(name);
  if (checksum !== undefined && checksum !== checksumOf(sql)) throw changed(name);
  return checksum !== undefined;
};

/** In characters. A quote becomes four, and all of it is sent as one message. */
const maxRunLength = 8 * 1024 * 1024;
/** The length of statements that run together, in characters. */
const maxBatchLength = 1024 * 1024;

/**
 * As text that a function executes: there several statements may stand, COPY has no client to talk to, and none of them
 * can end the transaction. The simple protocol would let a COMMIT through.
 * @throws {ServiceError} `payload_too_large` above 8 MB
 */
export const runSql = async (client: ClientBase, sql: string): Promise<void> => {
  if (sql.length > maxRunLength) {
    throw new ServiceError(
      'payload_too_large',
      `SQL of more than ${maxRunLength / 1024 / 1024} MB is not run at once.`,
    );
  }
  await client.query(`do ${await quoteInTurns(`begin execute ${await quoteInTurns(sql)}; end`)}`);
};

/**
 * Runs many statements, some at a time.
 * @throws {ServiceError} `payload_too_large` when one of them has more than 8 MB
 */
export const runStatements = async (client: ClientBase, statements: readonly string[]): Promise<void> => {
  let [batch, length]: [string[], number] = [[], 0];
  for (const sql of statements) {
    if (batch.length > 0 && length + sql.length > maxBatchLength) {
      await runSql(client, batch.join(';\n'));
      [batch, length] = [[], 0];
    }
    batch.push(sql);
    length += sql.length + 2;
  }
  if (batch.length > 0) await runSql(client, batch.join(';\n'));
};

const takeLock = async (client: ClientBase): Promise<void> => {
  await lockPushes(client, lockWaitMs).catch((error: unknown) => {
    if (!(error instanceof DatabaseError) || error.code !== '55P03') throw error;
    throw new ServiceError('conflict', 'Other migrations of the project are being applied.', {
      hint: 'Try again when they are done.',
    });
  });
};

/** Under the lock, within a transaction. @returns whether it was applied now */
const applyStep = async (client: ClientBase, step: MigrationStep): Promise<boolean> => {
  if (wasApplied(await appliedAmong(client, [step.name]), step)) return false;
  const began = performance.now();
  await runSql(client, step.sql);
  // Deferred constraints are checked while the step can still be named; a role or a path that it set ends here.
  await client.query('set constraints all immediate; reset role; reset search_path');
  const duration_ms = Math.round(performance.now() - began);
  await recordApplied(client, { name: step.name, checksum: checksumOf(step.sql), duration_ms });
  return true;
};

interface PushOptions {
  readonly tenantDb: FenceDb;
  readonly projectId: string;
  /** Runs all steps and keeps nothing. */
  readonly dryRun: boolean;
  /** The whole list once for a key, which is recorded with its last step. */
  readonly once?: Once | undefined;
}

/** Runs work in a transaction of its own; all transactions of a push share one connection. */
type InTransaction = <T>(work: (client: ClientBase) => Promise<T>) => Promise<T>;

const transactionsOf =
  (run: FencedRun, { dryRun }: PushOptions): InTransaction =>
  (work) =>
    run(async (client, stoppedBy) => {
      try {
        await client.query('begin');
        await takeLock(client);
        await client.query(`set local statement_timeout = ${stepTimeoutMs}`);
        const result = await work(client);
        await client.query(dryRun ? 'rollback' : 'commit');
        return result;
      } catch (error) {
        throw stoppedBy() === null ? error : tookTooLong(stepTimeoutMs);
      }
    });

/** Transactions in which what lasts too long is stopped; each begins with an empty session. */
const inTransactions = <T>(options: PushOptions, work: (inTransaction: InTransaction) => Promise<T>): Promise<T> => {
  const { tenantDb, projectId } = options;
  const fence = {
    projectId,
    role: 'owner',
    timeoutMs: stepTimeoutMs + lockWaitMs,
    // A client that left learns the result by asking again: no step is cut off for that half-way through the list.
    signal: new AbortController().signal,
  } as const;
  return inFences(tenantDb, fence, (run) => work(transactionsOf(run, options)));
};

/** The steps that were done before, to which `each` adds. */
type Each = (step: MigrationStep, before: Pushed) => Promise<Pushed>;

const withStep = ({ applied, skipped }: Pushed, name: string, isNew: boolean): Pushed =>
  isNew ? { applied: [...applied, name], skipped } : { applied, skipped: [...skipped, name] };

/** Runs the steps one by one; `each` says in what. */
const applyAll = async (steps: readonly MigrationStep[], { dryRun }: PushOptions, each: Each): Promise<Pushed> => {
  let done: Pushed = { applied: [], skipped: [] };
  for (const [index, step] of steps.entries()) {
    const before = done;
    done = await each(step, before).catch((error: unknown) => {
      throw toStepError(error, { ...step, step: index + 1, applied: dryRun ? [] : before.applied });
    });
  }
  return done;
};

/** Within a transaction. */
const applyIn =
  (client: ClientBase): Each =>
  async (step, before) =>
    withStep(before, step.name, await applyStep(client, step));

/** @throws {ServiceError} `migration_changed`, before anything runs */
const refuseChanged = ({ tenantDb, projectId }: PushOptions, steps: readonly MigrationStep[]): Promise<void> =>
  tenantDb.use(projectId, 'reader', async (client) => {
    const known = await appliedAmong(
      client,
      steps.map(({ name }) => name),
    );
    for (const step of steps) wasApplied(known, step);
  });

const parsed = (answer: string): Pushed => JSON.parse(answer) as Pushed;

/** Each step in a transaction of its own; a key and its answer are recorded in that of the last. */
const applyEach = (options: PushOptions, steps: readonly MigrationStep[]): Promise<Pushed> =>
  inTransactions(options, (inTransaction) =>
    applyAll(steps, options, (step, before) =>
      inTransaction(async (client) => {
        const once = step === steps.at(-1) ? options.once : undefined;
        const apply = async (): Promise<string> => JSON.stringify(await applyIn(client)(step, before));
        return parsed(await onceAsOwner(client, once, apply));
      }),
    ),
  );

/** Asked before the first of several steps: another list under the same key must not begin. */
const findEarlier = async (options: PushOptions, once: Once): Promise<Pushed | null> => {
  const answer = await inTransactions({ ...options, dryRun: true }, (inTransaction) =>
    inTransaction((client) => earlierAnswer(client, once)),
  );
  return answer === null ? null : parsed(answer);
};

/**
 * Applies a project's migrations in their order, as its owner role: each in a transaction of its own, which records it,
 * too, and in an empty session. What was applied before is skipped; of several who push at once, one applies a step.
 * When one fails, those before it stay, and those after it do not run. A dry run is one transaction that is rolled back,
 * and keeps no key.
 * @throws {ServiceError} `migration_changed`; `conflict` when others pushed for 30 s; `idempotency_mismatch`
 * @throws {DataError} with the SQLSTATE of the step that failed, and in `details` which and where
 */
export const pushMigrations = async (options: PushOptions, steps: readonly MigrationStep[]): Promise<Pushed> => {
  const { once, dryRun } = options;
  const earlier = once === undefined || dryRun ? null : await findEarlier(options, once);
  if (earlier !== null) return earlier;
  await refuseChanged(options, steps);
  if (!dryRun) return applyEach(options, steps);
  return inTransactions(options, (inTransaction) =>
    inTransaction((client) => applyAll(steps, options, applyIn(client))),
  );
};
