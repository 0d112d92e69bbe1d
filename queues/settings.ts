import { type Config, ConfigError, globalLimitPrefix, settings } from '#lib/config.ts';
import { globalLimit, note } from '#lib/config/kinds.ts';
import { jobs } from './registry.ts';

const settingOf = (type: string): string => `${globalLimitPrefix}${type.replaceAll('.', '_').toUpperCase()}`;

/** Every setting of the platform: those of lib/config.ts, and the global limit of each job type. */
export const allSettings = settings.extend(
  Object.fromEntries(
    jobs.map(({ type, plural }) => [
      settingOf(type),
      note(globalLimit, `${plural} at a time on the whole installation; empty means the sum of all slots.`),
    ]),
  ),
);

/**
 * The setting that bounds a job type on the whole installation (PLINTH_GLOBAL_<TYPE>); null: none.
 * @throws {ConfigError} when a shard would have no place
 */
export const globalSettingOf = (
  type: string,
  config: Pick<Config, 'globalLimits' | 'PLINTH_QUEUE_SHARDS'>,
): number | null => {
  const limit = config.globalLimits[settingOf(type)];
  if (limit === undefined) return null;
  if (limit >= config.PLINTH_QUEUE_SHARDS) return limit;
  throw new ConfigError(`The global limit of ${type} must not be less than PLINTH_QUEUE_SHARDS.`);
};
