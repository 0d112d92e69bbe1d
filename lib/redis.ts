import { Redis } from 'ioredis';
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

/** For requests that must answer: a command fails at once while Redis is away, and after 1.5 s when Redis hangs. */
export const openRequestRedis = (url: string, log: Log): Redis =>
  noteErrors(
    new Redis(url, {
      enableOfflineQueue: false,
      commandTimeout: 1500,
      connectTimeout: 1500,
      maxRetriesPerRequest: 0,
      retryStrategy: reconnectDelay,
    }),
    log,
  );

/**
 * For loops that wait for Redis as long as it takes: BullMQ workers and stream readers. They must keep the offline
 * queue: without it a worker's connection spins the event loop when Redis dies.
 */
export const openWorkerRedis = (url: string, log: Log): Redis =>
  noteErrors(new Redis(url, { maxRetriesPerRequest: null, retryStrategy: reconnectDelay, connectTimeout: 5000 }), log);
