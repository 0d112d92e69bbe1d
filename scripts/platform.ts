import path from 'node:path';
import { StartError } from './errors.ts';
import { provideBubblewrap } from './infra/bubblewrap.ts';
import { type ProvidedPostgres, providePostgres } from './infra/postgres.ts';
import { provideRedis } from './infra/redis.ts';
import type { Site } from './infra/site.ts';
import { freePortAnywhere, freePortFrom, isFree, onFreePort } from './infra/ports.ts';
import { type MadeSecret, keyRingIn, opsTokenIn } from './made-secrets.ts';
import { type ProcessSpec, readyMessage } from './processes.ts';
import type { Settings } from './settings.ts';
import type { Stack } from './stack.ts';

/** The servers of a platform, given or provided. */
export interface Servers {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  /** Set when the database is one we provide. */
  readonly postgres: ProvidedPostgres | null;
  readonly bubblewrapPath: string | null;
}

interface Means {
  readonly settings: Settings;
  readonly site: Site;
  readonly stack: Stack;
}

const providedDatabase = ({ site, stack }: Means): Promise<ProvidedPostgres> =>
  onFreePort(async () => {
    const postgres = await providePostgres(site);
    await site.narrator.during('starting PostgreSQL', () => stack.start(postgres.spec));
    site.narrator.print(postgres.name);
    return postgres;
  }, site.narrator.print);

const providedRedisUrl = ({ site, stack }: Means): Promise<string> =>
  onFreePort(async () => {
    const redis = await provideRedis(site);
    await site.narrator.during('starting Redis', () => stack.start(redis.spec));
    site.narrator.print(redis.name);
    return redis.url;
  }, site.narrator.print);

const bubblewrapPath = async ({ site, settings }: Means): Promise<string | null> => {
  // With both servers given this is a machine that somebody prepares: nothing is fetched.
  if (settings.databaseUrl !== null && settings.redisUrl !== null) return null;
  const bubblewrap = await provideBubblewrap(site);
  if (bubblewrap.found) return bubblewrap.path;
  site.narrator.print(bubblewrap.why);
  return null;
};

/** Provides what was not given: PostgreSQL, Redis, bubblewrap. Resolves when the servers take connections. */
export const provideServers = async (means: Means): Promise<Servers> => {
  const { settings } = means;
  const [postgres, redisUrl, bubblewrap] = await Promise.all([
    settings.databaseUrl === null ? providedDatabase(means) : null,
    settings.redisUrl ?? providedRedisUrl(means),
    bubblewrapPath(means),
  ]);
  const databaseUrl = settings.databaseUrl ?? postgres?.url;
  if (databaseUrl === undefined) throw new StartError('There is no database.');
  return { databaseUrl, redisUrl, postgres, bubblewrapPath: bubblewrap };
};

/** Secrets of one platform: given in the environment, else made once and kept with the data. */
export interface PlatformSecrets {
  /** `null`: neither given nor ours to make; our processes say what to do. */
  readonly keyRing: string | null;
  readonly opsToken: string;
  /** Set when the token is one we made. */
  readonly madeOpsToken: MadeSecret | null;
}

const given = (name: string): string | null => process.env[name] || null;

export const platformSecrets = (settings: Settings, dataDir: string): PlatformSecrets => {
  const ops = given('PLINTH_OPS_TOKEN');
  const madeOpsToken = ops === null ? opsTokenIn(dataDir) : null;
  const keyRing = given('PLINTH_SECRET_KEYS') ?? (settings.databaseUrl === null ? keyRingIn(dataDir).value : null);
  return { keyRing, opsToken: ops ?? madeOpsToken?.value ?? '', madeOpsToken };
};

/** The port for the API: the one that was asked for, else 3000 or the next free one; 0 is any. */
export const choosePort = async (requested: number | null, print: (line: string) => void): Promise<number> => {
  const usual = 3000;
  if (requested === 0) return freePortAnywhere();
  if (requested !== null) {
    if (await isFree(requested)) return requested;
    throw new StartError(
      `Port ${requested} is taken: choose another with PORT=…, or leave PORT out to get the next free one.`,
    );
  }
  const port = await freePortFrom(usual);
  if (port !== usual) print(`port ${usual} is taken, using ${port}`);
  return port;
};

/** Compiled code is kept: a start is 0.2 s faster and a process 30 MB smaller than when it strips types itself. */
export const compileCacheIn = (runtimeDir: string): NodeJS.ProcessEnv => ({
  NODE_COMPILE_CACHE: path.join(runtimeDir, 'compile-cache'),
});

/** The environment of our processes. */
export const processEnvironment = (
  servers: Servers,
  secrets: PlatformSecrets,
  site: Pick<Site, 'dataDir' | 'runtimeDir'>,
): NodeJS.ProcessEnv => ({
  ...compileCacheIn(site.runtimeDir),
  ...process.env,
  DATABASE_URL: servers.databaseUrl,
  REDIS_URL: servers.redisUrl,
  DATA_DIR: site.dataDir,
  PLINTH_LOCAL: 'on',
  PLINTH_OPS_TOKEN: secrets.opsToken,
  ...(secrets.keyRing !== null && { PLINTH_SECRET_KEYS: secrets.keyRing }),
  ...(servers.bubblewrapPath !== null && { PLINTH_BWRAP: servers.bubblewrapPath }),
});

export interface AppPlan {
  /** Asked again when another program was faster; one that was asked for by number cannot be replaced. */
  readonly choosePort: () => Promise<number>;
  readonly workers: number;
  readonly drainMs: number;
  readonly env: NodeJS.ProcessEnv;
  /** Where each process writes; without it they write where we do. */
  readonly logFolder?: string;
}

const appSpec = (root: string, plan: AppPlan, name: string, own: Pick<ProcessSpec, 'args' | 'env'>): ProcessSpec => ({
  ...own,
  name,
  stage: 'app',
  command: process.execPath,
  cwd: root,
  ...(plan.logFolder !== undefined && { logFile: path.join(plan.logFolder, `${name}.log`) }),
  stopSignal: 'SIGTERM',
  // They bound their own draining; this is for one that hangs.
  stopWithinMs: plan.drainMs + 2000,
  ready: readyMessage,
});

/** Answers the port that the API got. */
const startApi = async ({ site, stack }: Omit<Means, 'settings'>, plan: AppPlan): Promise<number> => {
  const port = await plan.choosePort();
  const args = [path.join(site.root, 'api/server.ts')];
  const spec = appSpec(site.root, plan, 'api', { args, env: { ...plan.env, PORT: String(port) } });
  await stack.start({ ...spec, port });
  return port;
};

/** Starts the API and then the workers; resolves with the port of the API when all of them serve. */
export const startProcesses = async (means: Omit<Means, 'settings'>, plan: AppPlan): Promise<number> => {
  const { site, stack } = means;
  const { root, narrator } = site;
  const worker = (name: string): ProcessSpec =>
    appSpec(root, plan, name, {
      // isolated-vm does not work with Node's start-up snapshot.
      args: ['--no-node-snapshot', path.join(root, 'workers/server.ts')],
      env: { ...plan.env, PLINTH_WORKER_NAME: name },
    });
  const workers = Array.from({ length: plan.workers }, (_, index) => worker(`worker-${index + 1}`));
  return narrator.during('starting the API and the workers', async () => {
    // Each takes two seconds of a processor: all at once, people would wait longest for the API, which they look at first.
    const port = await onFreePort(() => startApi(means, plan), narrator.print);
    await Promise.all(workers.map((spec) => stack.start(spec)));
    return port;
  });
};
