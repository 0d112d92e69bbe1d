import type { NewJobRow } from '#domain/jobs/store.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { DueRow, Which } from './due-store.ts';

/** Schedules that one transaction takes. */
export const batchSize = 200;

/** The result of a batch, once it is committed. */
export interface Pass {
  /** Whether there may be more to do at once. */
  readonly more: boolean;
  /** For the gate. */
  readonly jobs: readonly NewJobRow[];
}

/** The work of a batch, and the handling of a schedule with which it fails. */
export interface Kind {
  readonly lock: (tx: Tx, which: Which) => Promise<DueRow[]>;
  readonly work: (tx: Tx, schedules: readonly DueRow[], log: Log) => Promise<Pass>;
  readonly setAside: (tx: Tx, schedule: DueRow) => Promise<void>;
}

const runFireAlone = (db: ControlDb, log: Log, kind: Kind, id: string): Promise<Pass> => {
  const withIt = (work: (tx: Tx, locked: DueRow) => Promise<Pass>): Promise<Pass> =>
    db.transaction(async (tx) => {
      const [locked] = await kind.lock(tx, { limit: 1, id });
      return locked ? work(tx, locked) : { jobs: [], more: false };
    });
  return withIt((tx, locked) => kind.work(tx, [locked], log)).catch((error: unknown) => {
    if (isDependencyFailure(error)) throw error;
    log.error({ err: error, schedule_id: id }, 'a schedule could not be fired; it is set aside');
    return withIt(async (tx, locked) => {
      await kind.setAside(tx, locked);
      return { jobs: [], more: false };
    });
  });
};

/** All in one transaction. When that fails for what is in it, each by itself: one must not hold up the others. */
export const runFireBatch = async (db: ControlDb, log: Log, kind: Kind): Promise<Pass> => {
  let locked: readonly DueRow[] = [];
  try {
    return await db.transaction(async (tx) => {
      locked = await kind.lock(tx, { limit: batchSize });
      return locked.length > 0 ? kind.work(tx, locked, log) : { jobs: [], more: false };
    });
  } catch (error) {
    if (isDependencyFailure(error) || locked.length === 0) throw error;
    log.warn({ err: error, schedules: locked.length }, 'a batch of schedules failed; each is fired by itself');
  }
  const jobs: NewJobRow[] = [];
  for (const { id } of locked) jobs.push(...(await runFireAlone(db, log, kind, id)).jobs);
  return { jobs, more: false };
};
