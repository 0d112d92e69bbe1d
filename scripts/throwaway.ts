import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { findVector, provideVector } from './infra/pgvector.ts';
import { makeMemoryFolder, memoryFolderOf } from './infra/memory-folder.ts';
import { freePortAnywhere } from './infra/ports.ts';
import type { Site } from './infra/site.ts';
import { createThrowawayDatabase } from './infra/throwaway-database.ts';
import { stopLeftovers } from './leftovers.ts';
import { newKeyRing } from './made-secrets.ts';
import { narrateTo } from './narrator.ts';
import { lockOwner, recordedProcesses } from './pid-lock.ts';
import {
  type PlatformSecrets,
  type Servers,
  platformSecrets,
  processEnvironment,
  provideServers,
  startProcesses,
} from './platform.ts';
import { processIdentity } from './process-identity.ts';
import { type Settings, readSettings } from './settings.ts';
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
    for (const place of [folder, memoryFolderOf(folder)]) rmSync(place, { recursive: true, force: true });
  }
};

/** The differences between the uses of throw-away servers. */
export interface ServersPlan {
  readonly durable: boolean;
  /** The environment that may name servers to use. */
  readonly given: NodeJS.ProcessEnv;
  /** Where the owner is written down; in the data folder by default. */
  readonly lockFile?: string;
  /** Waits for pgvector, which takes up to two minutes the first time; left out: it comes while the servers are used. */
  readonly vectorFirst?: boolean;
  /** Runs with the servers in `env`; resolves with the exit code. */
  readonly use: (surroundings: Surroundings, env: NodeJS.ProcessEnv) => Promise<number>;
}

export interface PlatformPlan extends Pick<ServersPlan, 'durable' | 'use'> {
  readonly workers: number;
}

const provideMissingVector = async (site: Site, { postgres }: Servers): Promise<void> => {
  if (postgres === null || findVector(postgres.programs) !== null) return;
  await provideVector(site, postgres.programs);
};

const throwawaySecrets = (settings: Settings, site: Site): PlatformSecrets => {
  const secrets = platformSecrets(settings, site.dataDir);
  return { ...secrets, keyRing: secrets.keyRing ?? newKeyRing() };
};

/** Tests and benchmarks make more with one account than a tenant may. */
const roomForMany = { PLINTH_FREE_PROJECTS_PER_ORG: '100000', PLINTH_ORGS_PER_USER: '100000' };

const bringUp = async (settings: Settings, plan: ServersPlan, surroundings: Surroundings): Promise<number> => {
  const { site, stack } = surroundings;
  const servers = await provideServers({ settings, site, stack });
  const env: NodeJS.ProcessEnv = {
    ...roomForMany,
    ...plan.given,
    ...processEnvironment(servers, throwawaySecrets(settings, site), site),
    // A Redis that was given may serve others too.
    ...(settings.redisUrl !== null && { PLINTH_REDIS_PREFIX: `plinth-test-${process.pid}` }),
  };
  const vector = provideMissingVector(site, servers);
  if (plan.vectorFirst === true) await vector;
  const code = await plan.use(surroundings, env);
  // Interrupted by the end of each short run it would start over with every one, 15 s of CPU each time.
  await vector;
  return code;
};

/**
 * PostgreSQL and Redis on data that are removed afterwards, on ports and in a folder of their own: they may run beside
 * `npm start` and beside others of their kind. Servers that are given are used instead, with a database of its own.
 * What it says goes to standard error; standard output belongs to what uses it.
 */
export const onThrowawayServers = async (root: string, plan: ServersPlan): Promise<number> => {
  await sweep(root);
  const dataDir = path.join(root, `${prefix}${process.pid}`);
  const given = readSettings(plan.given, root);
  const { runtimeDir, drainMs } = given;
  const database = given.databaseUrl === null ? null : await createThrowawayDatabase(given.databaseUrl);
  const settings = { ...given, databaseUrl: database?.url ?? null };
  const { durable, lockFile = path.join(dataDir, lockName) } = plan;
  const databaseDir = durable ? null : makeMemoryFolder(dataDir);
  const narrator = narrateTo(process.stderr);
  const place = { root, dataDir, runtimeDir, narrator, lockFile, ...(databaseDir !== null && { databaseDir }) };
  try {
    return await withStack({ ...place, drainMs, throwaway: true, durable }, (surroundings) =>
      bringUp(settings, plan, surroundings),
    );
  } finally {
    await database?.drop();
    for (const folder of [dataDir, memoryFolderOf(dataDir)])
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};

/** A whole platform on throw-away servers; its address is in `PLINTH_TEST_BASE_URL`. */
export const onThrowawayPlatform = (root: string, plan: PlatformPlan): Promise<number> =>
  onThrowawayServers(root, {
    durable: plan.durable,
    given: process.env,
    use: async (surroundings, given) => {
      const { site, stack } = surroundings;
      // Empty until somebody who needs the dashboard builds it there.
      const env = { PLINTH_DASHBOARD_DIR: path.join(site.dataDir, 'dashboard'), ...given };
      const { drainMs } = readSettings(process.env, root);
      const app = { choosePort: freePortAnywhere, workers: plan.workers, drainMs, env, logFolder: site.dataDir };
      const port = await startProcesses({ site, stack }, app);
      return plan.use(surroundings, { ...env, PLINTH_TEST_BASE_URL: `http://127.0.0.1:${port}` });
    },
  });
