import type { Jobs } from '#domain/jobs/jobs.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { functionSnapshot } from '#queues/function-snapshot.ts';

/*
 * Modules of 64 KB or more are evaluated once, into a snapshot of which the contexts of runs are made (decision 070).
 * Some cannot be; a deploy has a worker try it and answers why.
 */

/** Shorter modules are evaluated in each run, which takes no longer. The sandbox has the same number. */
const smallestCode = 64 * 1024;

/** A deploy does not wait longer for a worker to try its module. */
const waitMs = 5000;
const maxFaultLength = 300;

/** How the runs of a function begin. */
export interface WarmStart {
  /** They begin with a copy of the module's evaluated state. */
  readonly snapshot: boolean;
  /** Why not. */
  readonly reason: string | null;
}

interface Deployed {
  readonly projectId: string;
  readonly functionId: string;
  readonly version: number;
  readonly requestId: string;
}

const warmStartOf = (fault: string | null): WarmStart => ({ snapshot: fault === null, reason: fault });

/** Keeps what a worker found out about a version, unless a later one was tried meanwhile. */
export const recordSnapshot = async (
  db: Queryable,
  { functionId, version, fault }: Pick<Deployed, 'functionId' | 'version'> & { readonly fault: string | null },
): Promise<void> => {
  await db.query(
    `insert into function_snapshots as s (function_id, version, fault)
     select f.id, $2, $3 from functions f where f.id = $1
     on conflict (function_id) do update set version = excluded.version, fault = excluded.fault
       where s.version <= excluded.version`,
    [functionId, version, fault?.slice(0, maxFaultLength) ?? null],
    'record-snapshot',
  );
};

/** Null for modules that are small or in Python, and as long as it is not known. */
export const findWarmStart = async (
  db: Queryable,
  { functionId, version }: Pick<Deployed, 'functionId' | 'version'>,
): Promise<WarmStart | null> => {
  const row = await maybeOne(
    db.query<{ fault: string | null }>('select fault from function_snapshots where function_id = $1 and version = $2', [
      functionId,
      version,
    ]),
  );
  return row === undefined ? null : warmStartOf(row.fault);
};

/** Whether the present code of a function in JavaScript is long enough to be evaluated ahead of its runs. */
const isLarge = async (db: Queryable, { functionId, version }: Pick<Deployed, 'functionId' | 'version'>) =>
  (
    await db.query(
      `select from functions where id = $1 and version = $2 and language = 'javascript' and length(compiled) >= $3`,
      [functionId, version, smallestCode],
    )
  ).length > 0;

/**
 * Has a worker try a version that was just committed.
 * @returns null for modules that are small or in Python, and when no worker answered in time
 */
export const tryWarmStart = async (
  { db, jobs }: { readonly db: Queryable; readonly jobs: Pick<Jobs, 'run'> },
  { projectId, functionId, version, requestId }: Deployed,
): Promise<WarmStart | null> => {
  if (!(await isLarge(db, { functionId, version }))) return null;
  // A change of the name alone makes no version.
  const known = await findWarmStart(db, { functionId, version });
  if (known !== null) return known;
  const data = { function_id: functionId, version };
  const { outcome } = await jobs.run({ job: functionSnapshot, projectId, requestId, data }, waitMs);
  if (outcome?.result === null || outcome?.result === undefined) return null;
  return warmStartOf(functionSnapshot.result.parse(JSON.parse(outcome.result)).fault);
};
