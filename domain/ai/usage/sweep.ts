import type { ControlDb } from '#lib/control-db.ts';
import { deleteOldMonths, releaseLeftReservations } from './budget.ts';
import { deleteOldHeartbeats } from './call-store.ts';
import { rollUp } from './roll-up.ts';

/** The upkeep that runs once a minute beside closing lost calls and deleting old ones. */
export const sweepAiUsage = async (db: ControlDb): Promise<void> => {
  await releaseLeftReservations(db);
  await deleteOldHeartbeats(db);
  await deleteOldMonths(db);
  await rollUp(db);
};
