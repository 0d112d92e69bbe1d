/**
 * A queue shard: one job type, or a part of it when a type is spread over a Redis Cluster. It has its own BullMQ queue
 * and its own gate; a project's jobs of one type are all in one shard.
 */
export interface QueueShard {
  readonly type: string;
  /** Names the shard everywhere: its keys, its BullMQ queue, its row in `queue_shards`. */
  readonly name: string;
  /** How many shards its type has. */
  readonly shardCount: number;
}

const queueShardAt = (type: string, shardIndex: number, shardCount: number): QueueShard => ({
  type,
  shardCount,
  // Another number of shards means other shards: jobs that waited in the old ones are admitted again from their rows.
  name: shardCount === 1 ? type : `${type}.${shardIndex + 1}of${shardCount}`,
});

export const shardsOf = (type: string, shardCount: number): readonly QueueShard[] =>
  Array.from({ length: shardCount }, (_, shardIndex) => queueShardAt(type, shardIndex, shardCount));

/** The last digits of a UUID are random. */
export const shardOf = (projectId: string, shardCount: number): number =>
  shardCount === 1 ? 0 : Number.parseInt(projectId.slice(-8), 16) % shardCount;

/**
 * Every key of a shard under one hash tag, so that it lies on one node of a Redis Cluster.
 * @param prefix the installation's own (PLINTH_REDIS_PREFIX)
 */
export const shardPrefix = (prefix: string, shard: string): string => `{${prefix}:${shard}}`;
