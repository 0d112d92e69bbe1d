import { Redis } from 'ioredis';
import type { TestFn } from 'ava';
import { startApi } from '#api/api.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import type { Config } from '#lib/config.ts';
import { startWorker } from '#workers/worker.ts';
import { type Client, createClient } from './client.ts';
import { createTestDatabase, dropProjectDatabases } from './databases.ts';
import { testEnv } from './env.ts';
import { type Settings, memoryLog, testConfig } from './platform.ts';
import { type TcpProxy, startProxyTo } from './tcp-proxy.ts';

/** A platform whose ways to Postgres and Redis can be broken. */
export interface FaultyPlatform {
  readonly base: string;
  readonly config: Config;
  readonly client: Client;
  /** Between the platform and its servers. */
  readonly postgres: TcpProxy;
  readonly redis: TcpProxy;
  /** Straight to the control database. */
  readonly db: ControlDb;
  readonly logged: () => string;
  readonly stop: () => Promise<void>;
}

const removeKeys = async (prefix: string): Promise<void> => {
  const redis = new Redis(testEnv('REDIS_URL'));
  for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
  redis.disconnect();
};

const startFaultyPlatform = async (settings: Settings = {}): Promise<FaultyPlatform> => {
  const database = await createTestDatabase();
  const { proxy: postgres, url: postgresUrl } = await startProxyTo(database.url);
  const { proxy: redis, url: redisUrl } = await startProxyTo(testEnv('REDIS_URL'));
  const config = testConfig(postgresUrl, { REDIS_URL: redisUrl, ...settings });
  const { log, text } = memoryLog();
  const api = await startApi(config, log);
  const stopWorker = await startWorker(config, log);
  const db = openControlDb({ url: database.url, connections: 2, log });
  const base = `http://127.0.0.1:${api.port}`;
  return {
    base,
    config,
    client: createClient(base),
    postgres,
    redis,
    db,
    logged: text,
    stop: async () => {
      await Promise.all([postgres.restore(), redis.restore()]);
      api.server.closeAllConnections();
      await Promise.all([api.stop(), stopWorker()]);
      await db.close();
      await Promise.all([postgres.close(), redis.close()]);
      await removeKeys(config.PLINTH_REDIS_PREFIX);
      await dropProjectDatabases(database.url);
      await database.drop();
    },
  };
};

export const useFaultyPlatform = (test: TestFn, settings: Settings = {}): (() => FaultyPlatform) => {
  let running: FaultyPlatform | undefined;
  test.before('the platform starts', async () => {
    running = await startFaultyPlatform(settings);
  });
  test.after.always('the platform stops', () => running?.stop());
  return () => {
    if (running === undefined) throw new Error('the platform has not started');
    return running;
  };
};
