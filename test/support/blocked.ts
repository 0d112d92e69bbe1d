import { setTimeout as pause } from 'node:timers/promises';
import type { Queryable } from '#lib/control-db.ts';

/** Resolves once another transaction of this database waits for a row lock. */
export const untilBlocked = async (db: Queryable): Promise<void> => {
  for (let tries = 0; tries < 1000; tries += 1) {
    const waiting = await db.query(
      `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (waiting.length > 0) return;
    await pause(5);
  }
  throw new Error('nothing waits for a lock');
};
