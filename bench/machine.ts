import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { requiredIn } from './settings.ts';

const distribution = (): string => {
  try {
    return /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? process.platform;
  } catch {
    return process.platform;
  }
};

const postgresVersion = async (url: string): Promise<string> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return rows[0]?.server_version ?? '?';
  } finally {
    await client.end();
  }
};

const redisVersion = async (url: string): Promise<string> => {
  const redis = new Redis(url);
  try {
    return /^redis_version:(.*)$/m.exec(await redis.info('server'))?.[1]?.trim() ?? '?';
  } finally {
    redis.disconnect();
  }
};

/** The machine and the versions that the figures belong to, a line each. */
export const describeMachine = async (env: NodeJS.ProcessEnv): Promise<string[]> => {
  const processors = cpus();
  const gib = (totalmem() / 1024 ** 3).toFixed(0);
  const [postgres, redis] = await Promise.all([
    postgresVersion(requiredIn(env, 'DATABASE_URL')),
    redisVersion(requiredIn(env, 'REDIS_URL')),
  ]);
  return [
    `${processors.length} × ${processors[0]?.model.trim() ?? '?'}, ${gib} GiB`,
    `${distribution()}, kernel ${release()}`,
    `Node ${process.version}, PostgreSQL ${postgres}, Redis ${redis}`,
  ];
};

/** How many processes wanted a processor over the last minute. */
export const loadAverage = (): string => (loadavg()[0] ?? Number.NaN).toFixed(2);
