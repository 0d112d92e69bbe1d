import { Redis } from 'ioredis';
import { ConfigError } from './config.ts';
import { giveUpAfter } from './lag-aware-timer.ts';
import type { Log } from './log.ts';

const reconnectDelay = (times: number): number => Math.min(50 * 2 ** Math.min(times, 5), 1000);

const noteErrors = (redis: Redis, log: Log): Redis => {
  let down = false;
  redis.on('error', (error: Error) => {
    if (!down) log.warn({ err: error }, 'Redis cannot be reached; trying again');
    down = true;
  });
  redis.on('ready', () => {
    if (down) log.info('Redis is back');
    down = false;
  });
  return redis;
};

/**
 * A server that a failover made a replica keeps its connections: it answers writes with READONLY and ends blocking
 * reads with UNBLOCKED. A new connection reaches the new master, by whatever stands behind the address.
 */
const isDemotion = (error: Error): boolean => /\b(READONLY|UNBLOCKED)\b/.test(error.message);

const answerWithinMs = 1500;

/** A command fails after 1.5 s without an answer, and later while this process itself lags. */
class RequestRedis extends Redis {
  override sendCommand(...[command, stream]: Parameters<Redis['sendCommand']>): unknown {
    const cancel = giveUpAfter(answerWithinMs, () => command.reject(new Error('Command timed out')));
    command.promise.then(cancel, cancel);
    return super.sendCommand(command, stream);
  }
}

/** For requests that must answer: a command fails at once while Redis is away, and after 1.5 s when Redis hangs. */
export const openRequestRedis = (url: string, log: Log): Redis =>
  noteErrors(
    new RequestRedis(url, {
      enableOfflineQueue: false,
      connectTimeout: 1500,
      maxRetriesPerRequest: 0,
      retryStrategy: reconnectDelay,
      reconnectOnError: isDemotion,
    }),
    log,
  );

/**
 * For loops that wait for Redis as long as it takes: BullMQ workers and stream readers. They must keep the offline
 * queue: without it a worker's connection spins the event loop when Redis dies.
 */
export const openWorkerRedis = (url: string, log: Log): Redis =>
  noteErrors(
    new Redis(url, {
      maxRetriesPerRequest: null,
      retryStrategy: reconnectDelay,
      connectTimeout: 5000,
      reconnectOnError: isDemotion,
    }),
    log,
  );

const fieldIn = (info: string, name: string): string | undefined => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];

/**
 * Resolves when the server takes writes. A connection to a replica is given up: the next one may reach the master.
 * @throws {Error} when it is a replica
 */
export const requireMaster = async (redis: Redis): Promise<void> => {
  if (fieldIn(await redis.info('replication'), 'role') !== 'slave') return;
  redis.disconnect(true);
  throw new Error('READONLY The Redis server is a replica.');
};

/** The run id of the server behind the connection: a restarted Redis has another one, and so has a promoted replica. */
export const serverIdOf = async (redis: Redis): Promise<string> => fieldIn(await redis.info('server'), 'run_id') ?? '';

/**
 * With any other policy Redis drops leases, queues and outcomes when its memory is full, and says nothing.
 * @throws {ConfigError} when Redis evicts keys
 */
export const requireNoEviction = async (redis: Redis): Promise<void> => {
  const policy = fieldIn(await redis.info('memory'), 'maxmemory_policy') ?? 'noeviction';
  if (policy === 'noeviction') return;
  throw new ConfigError(
    `REDIS_URL: the server has maxmemory-policy ${policy}, with which it drops jobs when its memory is full. ` +
      'Set maxmemory-policy to noeviction (CONFIG SET maxmemory-policy noeviction, and in its configuration file).',
  );
};

/** The readiness check of Redis: it answers, it is the master, and it evicts nothing. */
export const checkRedis = async (redis: Redis): Promise<void> => {
  await Promise.all([requireMaster(redis), requireNoEviction(redis)]);
};

const startWithinMs = 2000;

/**
 * At the start of a process. A Redis that is away does not keep it from starting: it is not ready until Redis answers,
 * and then readiness asks.
 * @throws {ConfigError} when Redis evicts keys
 */
export const refuseEviction = async (redis: Redis): Promise<void> => {
  if (redis.status !== 'ready') {
    const ready = Promise.withResolvers<void>();
    const timer = setTimeout(ready.resolve, startWithinMs);
    redis.once('ready', ready.resolve);
    await ready.promise;
    clearTimeout(timer);
  }
  await requireNoEviction(redis).catch((error: unknown) => {
    if (error instanceof ConfigError) throw error;
  });
};
