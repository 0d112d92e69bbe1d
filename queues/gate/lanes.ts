/**
 * A lane: one job type, or one shard of it when a type is spread over a Redis Cluster. It has its own BullMQ queue and
 * its own gate; a project's jobs of one type are all in one lane.
 */
export interface Lane {
  readonly type: string;
  /** Names the lane everywhere: its keys, its BullMQ queue, its row in `job_lanes`. */
  readonly name: string;
  /** How many lanes its type has. */
  readonly shards: number;
}

const laneOfShard = (type: string, shard: number, shards: number): Lane => ({
  type,
  shards,
  // Another number of shards means other lanes: what waited in the old ones is admitted anew from its rows.
  name: shards === 1 ? type : `${type}.${shard + 1}of${shards}`,
});

export const lanesOf = (type: string, shards: number): readonly Lane[] =>
  Array.from({ length: shards }, (_, shard) => laneOfShard(type, shard, shards));

/** The last digits of a UUID are random. */
export const shardOf = (projectId: string, shards: number): number =>
  shards === 1 ? 0 : Number.parseInt(projectId.slice(-8), 16) % shards;

/**
 * Every key of a lane under one hash tag, so that it lies on one node of a Redis Cluster.
 * @param prefix the installation's own (PLINTH_REDIS_PREFIX)
 */
export const lanePrefix = (prefix: string, lane: string): string => `{${prefix}:${lane}}`;
