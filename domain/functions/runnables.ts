import { LRUCache } from 'lru-cache';
import type { Queryable } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type EnvVars, openEnvVars } from './env-vars.ts';
import { openProjectEnv } from './project-env.ts';
import { type Language, findRunnable } from './store.ts';

/** One version, ready to run. */
interface Runnable {
  readonly language: Language;
  readonly compiled: string;
  /** Path of the file with the handler; null: what runs is one text. */
  readonly entryFile?: string | null;
  readonly entryPoint: string;
  readonly timeoutMs: number;
  readonly memoryMib: number;
  /** The variables of the project, and those of the function, which override them. */
  readonly env: EnvVars;
  /** Which state of the project's variables that is. */
  readonly envVersion: number;
  /** A run that breaks off before its first step is continued, too. */
  readonly hasSteps?: boolean;
}

/** @param envVersion the version of the project's variables that the run must have, or a later one */
export type LoadRunnable = (functionId: string, version: number, envVersion: number) => Promise<Runnable | undefined>;

const cacheBytes = 64 * 1024 * 1024;
/** A version never changes, but its function is deleted. */
const rememberedMs = 5000;

/** In memory, roughly: two bytes a character, and what each text and the object cost. */
const sizeOf = ({ compiled, env }: Runnable): number =>
  Object.entries(env).reduce((sum, [name, value]) => sum + (name.length + value.length) * 2 + 64, 1024) +
  compiled.length * 2;

/**
 * Reads versions for a worker and remembers them for 5 s; one of a deleted function runs no longer than that. Variables
 * of the project that are older than the run asks for are read again.
 * @param clock milliseconds, for its age
 */
export const createRunnableLoader = (
  db: Queryable,
  sealerOf: (project: { readonly id: string; readonly data_key: Buffer }) => Sealer,
  clock: { readonly now: () => number } = performance,
): LoadRunnable => {
  const cache = new LRUCache<string, Runnable>({
    maxSize: cacheBytes,
    sizeCalculation: sizeOf,
    ttl: rememberedMs,
    ttlResolution: 0,
    perf: clock,
  });
  return async (functionId, version, envVersion) => {
    const key = `${functionId}:${version}`;
    const present = cache.get(key);
    if (present && present.envVersion >= envVersion) return present;
    const row = await findRunnable(db, functionId, version);
    if (row === undefined) return undefined;
    const sealer = sealerOf({ id: row.project_id, data_key: row.data_key });
    const runnable = {
      language: row.language,
      compiled: row.compiled,
      entryFile: row.language === 'python' ? row.entrypoint : null,
      entryPoint: row.entry_point,
      timeoutMs: row.timeout_ms,
      memoryMib: row.memory_mb,
      env: {
        ...openProjectEnv(sealer, row.project_id, row.shared_sealed),
        ...openEnvVars(sealer, functionId, row.env_sealed),
      },
      envVersion: row.env_version,
      hasSteps: row.has_steps,
    };
    cache.set(key, runnable);
    return runnable;
  };
};
