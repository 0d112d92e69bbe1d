import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { KoaAdapter } from '@bull-board/koa';
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Middleware } from 'koa';
import { jobTypes } from '#domain/ops/ops.ts';
import { shardPrefix, shardsOf } from '#queues/gate/queue-shards.ts';

export interface BoardOptions {
  readonly redis: Redis;
  /** PLINTH_REDIS_PREFIX */
  readonly prefix: string;
  /** PLINTH_QUEUE_SHARDS */
  readonly shardCount: number;
}

export const boardPath = '/ops/bullmq';

const openQueue = ({ redis, prefix }: BoardOptions, name: string): Queue => {
  const queue = new Queue(name, {
    connection: redis,
    prefix: shardPrefix(prefix, name),
    skipVersionCheck: true,
    // It is read-only.
    skipMetasUpdate: true,
  });
  // Failures reach the caller; the connection's own are logged where it is opened.
  queue.on('error', () => undefined);
  return queue;
};

/** Bull Board below `/ops/bullmq`: BullMQ's own data, read-only. It authenticates nobody itself. */
export const bullBoard = (options: BoardOptions): Middleware => {
  const adapter = new KoaAdapter().setBasePath(boardPath);
  const shards = jobTypes.flatMap((type) => shardsOf(type, options.shardCount));
  createBullBoard({
    queues: shards.map(({ name }) => new BullMQAdapter(openQueue(options, name), { readOnlyMode: true })),
    serverAdapter: adapter,
    options: {
      uiConfig: {
        boardTitle: 'BullMQ',
        pollingInterval: { showSetting: true },
        miscLinks: [{ text: 'plinth', url: '/ops' }],
      },
    },
  });
  return adapter.registerPlugin() as Middleware;
};
