import { createHash } from 'node:crypto';
import { type ClientBase, DatabaseError, escapeLiteral } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { type FenceDb, inFence } from '../console/fence.ts';
import { type Once, earlierAnswer, onceAsOwner } from '../console/owner-key.ts';
import { toStepError, tookTooLong } from './failure.ts';
import { appliedAmong, lockPushes, recordApplied } from './store.ts';

/** One step of the project's own: SQL, of one or several statements. */
export interface MigrationStep {
  readonly name: string;
  readonly sql: string;
}

export interface Pushed {
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

/**
 * As text that a function executes: there several statements may stand, COPY has no client to talk to, and none of them
 * can end the transaction. The simple protocol would let a COMMIT through.
 */
const runSql = async (client: ClientBase, sql: string): Promise<void> => {
  await client.query(`do ${escapeLiteral(`begin execute ${escapeLiteral(sql)}; end`)}`);
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

export interface PushOptions {
  readonly tenantDb: FenceDb;
  readonly projectId: string;
  /** Runs all steps and keeps nothing. */
  readonly dryRun: boolean;
  /** The whole list once for a key, which is recorded with its last step. */
  readonly once?: Once | undefined;
}

/** A transaction of a session of its own, in which what lasts too long is stopped. */
const inTransaction = <T>(
  { tenantDb, projectId, dryRun }: PushOptions,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> =>
  inFence(
    tenantDb,
    {
      projectId,
      role: 'owner',
      timeoutMs: stepTimeoutMs + lockWaitMs,
      // A client that left learns the result by asking again: no step is cut off for that half-way through the list.
      signal: new AbortController().signal,
    },
    async (client, stoppedBy) => {
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
    },
  );

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
  applyAll(steps, options, (step, before) =>
    inTransaction(options, async (client) => {
      const once = step === steps.at(-1) ? options.once : undefined;
      const apply = async (): Promise<string> => JSON.stringify(await applyIn(client)(step, before));
      return parsed(await onceAsOwner(client, once, apply));
    }),
  );

/** Asked before the first of several steps: another list under the same key must not begin. */
const findEarlier = async (options: PushOptions, once: Once): Promise<Pushed | null> => {
  const answer = await inTransaction({ ...options, dryRun: true }, (client) => earlierAnswer(client, once));
  return answer === null ? null : parsed(answer);
};

/**
 * Applies a project's migrations in their order, as its owner role: each in a transaction and a session of its own, which
 * records it, too. What was applied before is skipped; of several who push at once, one applies a step. When one fails,
 * those before it stay, and those after it do not run. A dry run is one transaction that is rolled back, and keeps no key.
 * @throws {ServiceError} `migration_changed`; `conflict` when others pushed for 30 s; `idempotency_mismatch`
 * @throws {DataError} with the SQLSTATE of the step that failed, and in `details` which and where
 */
export const pushMigrations = async (options: PushOptions, steps: readonly MigrationStep[]): Promise<Pushed> => {
  const { once, dryRun } = options;
  const earlier = once === undefined || dryRun ? null : await findEarlier(options, once);
  if (earlier !== null) return earlier;
  await refuseChanged(options, steps);
  if (!dryRun) return applyEach(options, steps);
  return inTransaction(options, (client) => applyAll(steps, options, applyIn(client)));
};
