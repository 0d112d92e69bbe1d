import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { findVector, provideVector } from './infra/pgvector.ts';
import { freePortAnywhere } from './infra/ports.ts';
import type { Site } from './infra/site.ts';
import { createThrowawayDatabase } from './infra/throwaway-database.ts';
import { stopLeftovers } from './leftovers.ts';
import { newKeyRing } from './made-secrets.ts';
import { narrateTo } from './narrator.ts';
import { lockOwner, recordedProcesses } from './pid-lock.ts';
import {
  platformSecrets,
  type PlatformSecrets,
  processEnvironment,
  provideServers,
  type Servers,
  startProcesses,
} from './platform.ts';
import { processIdentity } from './process-identity.ts';
import { readSettings, type Settings } from './settings.ts';
import { type Surroundings, withStack } from './with-stack.ts';

const prefix = '.data-test-';
const lockName = 'platform.pid';
const leftoverGraceMs = 3000;

/** Removes what runs that were killed left behind, processes first. */
const sweep = async (root: string): Promise<void> => {
  for (const name of readdirSync(root).filter((entry) => entry.startsWith(prefix))) {
    const folder = path.join(root, name);
    const lockFile = path.join(folder, lockName);
    // Before its lock is there, a run is known by the pid in its name.
    const isOwned = existsSync(lockFile)
      ? lockOwner(lockFile) !== null
      : processIdentity(Number(name.slice(prefix.length))) !== null;
    if (isOwned) continue;
    await stopLeftovers(recordedProcesses(lockFile), leftoverGraceMs);
    rmSync(folder, { recursive: true, force: true });
  }
};

/** What differs between the uses of a throw-away platform. */
export interface ThrowawayPlan {
  readonly durable: boolean;
  readonly workers: number;
  /** Runs against the platform with `env`; resolves with the exit code. */
  readonly use: (surroundings: Surroundings, env: NodeJS.ProcessEnv) => Promise<number>;
}

const provideVectorNowOrLater = async (site: Site, { postgres }: Servers): Promise<void> => {
  if (postgres === null || findVector(postgres.programs) !== null) return;
  await provideVector(site, postgres.programs);
};

const throwawaySecrets = (settings: Settings, site: Site): PlatformSecrets => {
  const secrets = platformSecrets(settings, site.dataDir);
  return { ...secrets, keyRing: secrets.keyRing ?? newKeyRing() };
};

/** Tests and benchmarks make more with one account than a tenant may. */
const roomForMany = { PLINTH_FREE_PROJECTS_PER_ORG: '100000', PLINTH_ORGS_PER_USER: '100000' };

const bringUp = async (settings: Settings, plan: ThrowawayPlan, surroundings: Surroundings): Promise<number> => {
  const { site, stack } = surroundings;
  const servers = await provideServers({ settings, site, stack });
  const env: NodeJS.ProcessEnv = {
    ...roomForMany,
    ...processEnvironment(servers, throwawaySecrets(settings, site), site),
    // A Redis that was given may serve others too.
    ...(settings.redisUrl !== null && { PLINTH_REDIS_PREFIX: `plinth-test-${process.pid}` }),
  };
  const { drainMs } = settings;
  const app = { choosePort: freePortAnywhere, workers: plan.workers, drainMs, env, logFolder: site.dataDir };
  const port = await startProcesses({ site, stack }, app);
  void provideVectorNowOrLater(site, servers);
  return plan.use(surroundings, { ...env, PLINTH_TEST_BASE_URL: `http://127.0.0.1:${port}` });
};

/**
 * A whole platform on data that are removed afterwards, on ports and in a folder of its own: it may run beside
 * `npm start` and beside others of its kind. What it says goes to standard error; standard output belongs to what uses
 * it.
 */
export const onThrowawayPlatform = async (root: string, plan: ThrowawayPlan): Promise<number> => {
  const given = readSettings(process.env, root);
  const { runtimeDir, drainMs } = given;
  await sweep(root);
  const dataDir = path.join(root, `${prefix}${process.pid}`);
  const narrator = narrateTo(process.stderr);
  const { durable } = plan;
  const place = { root, dataDir, runtimeDir, narrator, lockFile: path.join(dataDir, lockName) };
  const database = given.databaseUrl === null ? null : await createThrowawayDatabase(given.databaseUrl);
  const settings = { ...given, databaseUrl: database?.url ?? null };
  try {
    return await withStack({ ...place, drainMs, throwaway: true, durable }, (surroundings) =>
      bringUp(settings, plan, surroundings),
    );
  } finally {
    await database?.drop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
};
