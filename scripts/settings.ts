import { accessSync, constants, mkdirSync } from 'node:fs';
import path from 'node:path';
import { StartError } from './errors.ts';

/**
 * The settings that `npm start` and its relatives read from the environment; the processes themselves read the rest.
 */
export interface Settings {
  readonly root: string;
  /** Absolute. */
  readonly dataDir: string;
  /** Where unpacked programs live; shared by start, test and bench. */
  readonly runtimeDir: string;
  /** The port that was asked for, if one was. */
  readonly port: number | null;
  readonly workers: number;
  readonly drainMs: number;
  readonly databaseUrl: string | null;
  readonly redisUrl: string | null;
}

const text = (env: NodeJS.ProcessEnv, name: string): string | null => {
  const value = env[name];
  return value === undefined || value === '' ? null : value;
};

const wholeNumber = (env: NodeJS.ProcessEnv, name: string, max: number): number | null => {
  const value = text(env, name);
  if (value === null) return null;
  const number = Number(value);
  if (Number.isInteger(number) && number >= 0 && number <= max) return number;
  throw new StartError(`${name} must be a whole number from 0 to ${max}, not "${value}".`);
};

const canWrite = (folder: string): boolean => {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
};

/** Programs belong to the checkout; one that cannot be written (installed by another user) keeps them with the data. */
const runtimeFolder = (root: string, dataDir: string): string => {
  const own = path.join(root, '.data', 'runtime');
  return canWrite(own) ? own : path.join(dataDir, 'runtime');
};

/** @throws {StartError} when a setting is not usable */
export const readSettings = (env: NodeJS.ProcessEnv, root: string): Settings => {
  const dataDir = path.resolve(text(env, 'DATA_DIR') ?? path.join(root, '.data'));
  return {
    root,
    dataDir,
    runtimeDir: runtimeFolder(root, dataDir),
    port: wholeNumber(env, 'PORT', 65_535),
    workers: wholeNumber(env, 'WORKERS', 64) ?? 2,
    drainMs: wholeNumber(env, 'DRAIN_MS', 600_000) ?? 10_000,
    databaseUrl: text(env, 'DATABASE_URL'),
    redisUrl: text(env, 'REDIS_URL'),
  };
};
