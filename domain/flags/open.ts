import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { Signals } from '#queues/signals.ts';
import { type FlagSets, createFlagSets } from './flag-sets.ts';
import { type StreamTokens, createStreamTokens } from './stream-tokens.ts';
import { type FlagUsage, createFlagUsage } from './usage.ts';

/** The feature flags of a process. */
export interface Flags {
  readonly sets: FlagSets;
  readonly usage: FlagUsage;
  readonly streamTokens: StreamTokens;
  /** Flags of a project were changed here: this process has them at once, the others are notified. */
  readonly changed: (projectId: string) => Promise<void>;
  /** Another process changed flags. */
  readonly noteChange: (projectId: string) => void;
  readonly stop: () => Promise<void>;
}

export interface FlagsOptions {
  readonly config: Config;
  readonly log: Log;
  readonly db: ControlDb;
  readonly sealer: Pick<Sealer, 'keyFor'>;
  readonly isSubscribed: () => boolean;
  readonly signals: Pick<Signals, 'notify'>;
}

export const openFlags = ({ config, log, db, sealer, isSubscribed, signals }: FlagsOptions): Flags => {
  const sets = createFlagSets({
    db,
    log,
    isSubscribed,
    perProject: config.PLINTH_FLAG_CACHE_PER_PROJECT,
    perProcess: config.PLINTH_FLAG_CACHE_PER_PROCESS,
  });
  const usage = createFlagUsage({ db, log });
  // The poll of versions makes up for a load that fails.
  const noteFailure = (error: unknown): void => log.debug({ err: error }, 'changed flags could not be loaded');
  return {
    sets,
    usage,
    streamTokens: createStreamTokens(sealer),
    changed: async (projectId) => {
      await Promise.all([signals.notify({ about: 'flags', projectId }), sets.changed(projectId).catch(noteFailure)]);
    },
    noteChange: (projectId) => void sets.changed(projectId).catch(noteFailure),
    stop: async () => {
      await sets.stop();
      await usage.stop();
    },
  };
};
