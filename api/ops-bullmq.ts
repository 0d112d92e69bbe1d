import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { KoaAdapter } from '@bull-board/koa';
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Middleware } from 'koa';
import { jobTypes } from '#domain/jobs/ops-counts.ts';
import { lanePrefix, lanesOf } from '#queues/gate/lanes.ts';

export interface BoardOptions {
  readonly redis: Redis;
  /** PLINTH_REDIS_PREFIX */
  readonly prefix: string;
  /** PLINTH_QUEUE_SHARDS */
  readonly shards: number;
}

export const boardPath = '/ops/bullmq';

const openQueue = ({ redis, prefix }: BoardOptions, name: string): Queue => {
  const queue = new Queue(name, {
    connection: redis,
    prefix: lanePrefix(prefix, name),
    skipVersionCheck: true,
    // A look changes nothing.
    skipMetasUpdate: true,
  });
  // Failures reach who looks; the connection's own are logged where it is opened.
  queue.on('error', () => undefined);
  return queue;
};

/** Bull Board below `/ops/bullmq`: what BullMQ itself holds, to be looked at only. It does not ask who looks. */
export const bullBoard = (options: BoardOptions): Middleware => {
  const adapter = new KoaAdapter().setBasePath(boardPath);
  const lanes = jobTypes.flatMap((type) => lanesOf(type, options.shards));
  createBullBoard({
    queues: lanes.map(({ name }) => new BullMQAdapter(openQueue(options, name), { readOnlyMode: true })),
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
