import { LRUCache } from 'lru-cache';
import type { Queryable } from '#lib/control-db.ts';
import type { EndedCall } from './call-rows.ts';
import { type Keeping, insertIntents, upsertEnds } from './call-store.ts';
import type { CallIntent } from './calls.ts';
import { insertPlainIntents, upsertPlainEnds } from './plain-store.ts';

/** Records calls the short way where it will do. */
export interface Recording {
  /** As `insertIntents`. */
  readonly intents: (calls: readonly CallIntent[], keeping: Keeping) => Promise<ReadonlyMap<string, boolean>>;
  /** As `upsertEnds`. */
  readonly ends: (calls: readonly EndedCall[], heartbeat: string) => Promise<void>;
}

const rememberMs = 60_000;
const maxRemembered = 10_000;
const noVerdicts: ReadonlyMap<string, boolean> = new Map();

export const createRecording = (db: Queryable): Recording => {
  /** Projects that had a budget when they were asked about last: only what is tried first hangs on it. */
  const budgeted = new LRUCache<string, true>({ max: maxRemembered, ttl: rememberMs });

  const isPlain = async (calls: readonly CallIntent[], { heartbeat, touch }: Keeping): Promise<boolean> => {
    if (touch || calls.some(({ projectId }) => budgeted.has(projectId))) return false;
    const found = await insertPlainIntents(db, calls, heartbeat);
    for (const projectId of found) budgeted.set(projectId, true);
    return found.length === 0;
  };

  const isPlainEnd = (calls: readonly EndedCall[], heartbeat: string): Promise<boolean> =>
    calls.some(({ intent }) => budgeted.has(intent.projectId))
      ? Promise.resolve(false)
      : upsertPlainEnds(db, calls, heartbeat);

  return {
    intents: async (calls, keeping) =>
      (await isPlain(calls, keeping)) ? noVerdicts : insertIntents(db, calls, keeping),
    ends: async (calls, heartbeat) => {
      if (!(await isPlainEnd(calls, heartbeat))) await upsertEnds(db, calls, heartbeat);
    },
  };
};
