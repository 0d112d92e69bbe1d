import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import type { TestFn } from 'ava';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { startApi } from '#api/api.ts';
import { type Config, loadConfig } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { type Log, logBasics } from '#lib/log.ts';
import { startWorker } from '#workers/worker.ts';
import { type Client, createClient } from './client.ts';
import { createTestDatabase, dropProjectDatabases } from './databases.ts';
import { optionalTestEnv, testEnv } from './env.ts';
import { rememberFailure } from './failed-requests.ts';
import { atEndOfSharing, canShare, createShared } from './shared-platforms.ts';

export const opsToken = 'ops_test_token_0123456789';

/** One platform for one test file: its own control database and Redis keys, an API and a worker in this process. */
export interface TestPlatform {
  readonly base: string;
  readonly config: Config;
  /** The control database, for what no endpoint shows. */
  readonly db: ControlDb;
  readonly client: Client;
  /** Everything that was logged, one JSON object a line. */
  readonly logged: () => string;
  /** A second API process's worth of the same platform; stopped with it. */
  readonly startApi: () => Promise<string>;
  readonly startWorker: () => Promise<() => Promise<void>>;
  /** Jobs stay queued from then on, until another worker starts. */
  readonly stopWorkers: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export type Settings = Readonly<Record<string, string>>;

/** The settings of a test platform on that database. */
export const testConfig = (databaseUrl: string, settings: Settings = {}): Config =>
  loadConfig({
    DATABASE_URL: databaseUrl,
    REDIS_URL: testEnv('REDIS_URL'),
    PORT: '0',
    PLINTH_REDIS_PREFIX: `test-${randomBytes(6).toString('hex')}`,
    PLINTH_SECRET_KEYS: `1:${randomBytes(32).toString('base64')}`,
    PLINTH_OPS_TOKEN: opsToken,
    PLINTH_RATE_LIMITS: 'off',
    PLINTH_DATABASE_POOL: '8',
    // Many tests make more than a free account may have.
    PLINTH_FREE_PROJECTS_PER_ORG: '10000',
    PLINTH_ORGS_PER_USER: '10000',
    PLINTH_LOCAL: 'on',
    // Files are written there once somebody uploads one.
    DATA_DIR: path.join(tmpdir(), `plinth-test-${randomBytes(6).toString('hex')}`),
    ...(optionalTestEnv('PLINTH_BWRAP') && { PLINTH_BWRAP: testEnv('PLINTH_BWRAP') }),
    ...settings,
  });

/** A log that is kept in memory. */
export const memoryLog = (): { log: Log; text: () => string } => {
  const lines: string[] = [];
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      const line = chunk.toString();
      lines.push(line);
      rememberFailure(line);
      done();
    },
  });
  return { log: pino({ ...logBasics, level: 'debug' }, sink), text: () => lines.join('') };
};

export const removeRedisKeys = async (config: Config): Promise<void> => {
  const redis = new Redis(config.REDIS_URL);
  for await (const keys of redis.scanStream({ match: `*${config.PLINTH_REDIS_PREFIX}*`, count: 1000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
  redis.disconnect();
};

export interface StartOptions {
  readonly settings?: Settings;
  /** False: jobs stay queued. */
  readonly worker?: boolean;
}

export const startPlatform = async ({ settings = {}, worker = true }: StartOptions = {}): Promise<TestPlatform> => {
  const database = await createTestDatabase();
  const config = testConfig(database.url, settings);
  const { log, text } = memoryLog();
  const stops: (() => Promise<void>)[] = [];
  const workers: (() => Promise<void>)[] = [];
  const startApiHere = async (): Promise<string> => {
    const api = await startApi(config, log);
    stops.push(async () => {
      api.server.closeAllConnections();
      await api.stop();
    });
    return `http://127.0.0.1:${api.port}`;
  };
  const startWorkerHere = async (): Promise<() => Promise<void>> => {
    const stop = await startWorker(config, log);
    let stopped: Promise<void> | undefined;
    const once = (): Promise<void> => (stopped ??= stop());
    stops.push(once);
    workers.push(once);
    return once;
  };
  const base = await startApiHere();
  if (worker) await startWorkerHere();
  const db = openControlDb({ url: database.url, connections: 4, log });
  return {
    base,
    config,
    db,
    client: createClient(base),
    logged: text,
    startApi: startApiHere,
    startWorker: startWorkerHere,
    stopWorkers: async () => {
      await Promise.all(workers.map((stop) => stop()));
    },
    stop: async () => {
      await Promise.all(stops.map((stop) => stop()));
      await db.close();
      await removeRedisKeys(config);
      await dropProjectDatabases(database.url);
      await database.drop();
      await rm(config.DATA_DIR, { recursive: true, force: true });
    },
  };
};

export interface UseOptions extends StartOptions {
  /**
   * True: files of one process that say so, with the same settings, use one platform. For files that look only at the
   * users and projects that they make; not for those that look at the log, at counts, sweeps or Redis keys, change rows
   * of others, or leave work behind that keeps a worker busy.
   */
  readonly shared?: boolean;
}

const shared = createShared<TestPlatform>();
atEndOfSharing(shared.stop);

const keyOf = ({ settings = {}, worker = true }: StartOptions): string =>
  JSON.stringify([worker, Object.entries(settings).toSorted(([a], [b]) => a.localeCompare(b))]);

/** A platform for all tests of a file; `platform()` gives it once the first test runs. */
export const usePlatform = (test: TestFn, { shared: mayShare = false, ...options }: UseOptions = {}) => {
  const isShared = mayShare && canShare();
  let running: TestPlatform | undefined;
  // Serial hooks come first: a file's own `test.before` may use the platform.
  test.serial.before('the platform starts', async () => {
    const start = (): Promise<TestPlatform> => startPlatform(options);
    running = await (isShared ? shared.get(keyOf(options), start) : start());
  });
  if (!isShared) test.after.always('the platform stops', () => running?.stop());
  return (): TestPlatform => {
    if (running === undefined) throw new Error('the platform has not started');
    return running;
  };
};
