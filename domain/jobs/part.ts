/** Which projects a shard holds when its type is spread over several: part `index` of `count`. */
export interface Part {
  readonly index: number;
  readonly count: number;
}

/** SQL for "its project is in this part", as `shardOf` in queues/gate/shards.ts has it. */
export const inPart = (count: string, index: string): string =>
  `(${count}::int = 1 or ('x' || right(project_id::text, 8))::bit(32)::bigint % ${count}::int = ${index}::int)`;
