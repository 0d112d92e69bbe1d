import { readPriceFile } from '#domain/ai/prices/prices.ts';
import { ConfigError, configExitCode, faultList, settingFaults } from '#lib/config.ts';
import { poolsFault, poolsOf } from '#queues/define.ts';
import { StartError } from './errors.ts';

/** The settings that `npm start` makes itself when they are not given. */
const madeLater = (env: NodeJS.ProcessEnv): string[] => [
  // The key ring is made and kept with the database that we provide; for another one it has to be given.
  ...(env['DATABASE_URL'] ? [] : ['DATABASE_URL', 'PLINTH_SECRET_KEYS']),
  ...(env['REDIS_URL'] ? [] : ['REDIS_URL']),
];

const queueFaults = ({ WORKER_QUEUES: names }: NodeJS.ProcessEnv): string[] =>
  poolsOf(names || undefined) === null ? [poolsFault] : [];

const priceFaults = async ({ PLINTH_AI_PRICES: file }: NodeJS.ProcessEnv): Promise<string[]> => {
  try {
    if (file) await readPriceFile(file);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [error.message];
    throw error;
  }
};

/**
 * Before anything is started: the processes would each complain on their own, and of their first fault only.
 * @throws {StartError} naming every wrong setting
 */
export const requireUsableSettings = async (env: NodeJS.ProcessEnv): Promise<void> => {
  const named = settingFaults(env, madeLater(env));
  const isNamed = (fault: string): boolean => named.some((other) => other.split(':')[0] === fault.split(':')[0]);
  const further = [...queueFaults(env), ...(await priceFaults(env))].filter((fault) => !isNamed(fault));
  const faults = [...named, ...further];
  if (faults.length > 0) throw new StartError(faultList(faults), configExitCode);
};
