import { setTimeout as pause } from 'node:timers/promises';
import type { Queryable } from '#lib/control-db.ts';

/** Resolves once that many other transactions of this database wait for a lock. */
export const untilBlocked = async (db: Queryable, count = 1): Promise<void> => {
  for (let tries = 0; tries < 1000; tries += 1) {
    const waiting = await db.query(
      `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (waiting.length >= count) return;
    await pause(5);
  }
  throw new Error(`fewer than ${count} wait for a lock`);
};
