import type { NewJobRow } from '#domain/jobs/store.ts';
import { splitRefused } from '#lib/batch.ts';
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

const nothing: Pass = { jobs: [], more: false };

/** All in one transaction. When that fails for what is in it, smaller parts: one schedule must not hold up the others. */
export const runFireBatch = async (db: ControlDb, log: Log, kind: Kind): Promise<Pass> => {
  let due: readonly string[] = [];
  const lockAnd = (which: Which, work: (tx: Tx, locked: readonly DueRow[]) => Promise<Pass>): Promise<Pass> =>
    db.transaction(async (tx) => {
      const locked = await kind.lock(tx, which);
      due = locked.map(({ id }) => id);
      return locked.length > 0 ? work(tx, locked) : nothing;
    });
  const fire = (which: Which): Promise<Pass> => lockAnd(which, (tx, locked) => kind.work(tx, locked, log));
  const setAside = async (id: string, error: unknown): Promise<readonly NewJobRow[]> => {
    log.error({ err: error, schedule_id: id }, 'a schedule could not be fired; it is set aside');
    await lockAnd({ limit: 1, ids: [id] }, async (tx, [locked]) => {
      if (locked) await kind.setAside(tx, locked);
      return nothing;
    });
    return [];
  };
  try {
    return await fire({ limit: batchSize });
  } catch (error) {
    if (isDependencyFailure(error) || due.length === 0) throw error;
    log.warn({ err: error, schedules: due.length }, 'a batch of schedules failed; parts of it are fired');
  }
  const inParts = splitRefused<string, readonly NewJobRow[]>(async (ids) => {
    const { jobs } = await fire({ limit: ids.length, ids });
    return ids.map((_, place) => (place === 0 ? jobs : []));
  }, setAside);
  return { jobs: (await inParts(due)).flat(), more: false };
};
