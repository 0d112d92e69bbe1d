import type { Redis } from 'ioredis';

/** CPU time that the Redis server has used, in seconds. */
export const redisCpu = async (redis: Redis): Promise<number> => {
  const text = await redis.info('cpu');
  const field = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)?.[1] ?? Number.NaN);
  return field('used_cpu_user') + field('used_cpu_sys');
};

/** Bytes that the Redis server holds. */
export const redisBytes = async (redis: Redis): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1] ?? Number.NaN);
