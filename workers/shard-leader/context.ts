import type { Part } from '#domain/jobs/queue-shards.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { JobDefinition } from '#queues/define.ts';
import type { GateRules } from '#queues/gate/types.ts';
import type { ShardGate } from '#queues/gate/shard-gate.ts';
import type { Outcomes } from '#queues/replies.ts';
import type { Signals } from '#queues/signals.ts';
import type { Processor } from '#workers/processor.ts';

/** The dependencies of the work that a shard's leader does. */
export interface ShardContext {
  readonly db: ControlDb;
  readonly log: Log;
  readonly gate: ShardGate;
  readonly rules: GateRules;
  readonly job: JobDefinition;
  readonly processor: Processor;
  readonly outcomes: Outcomes;
  readonly signals: Signals;
  /** Which projects of this job type are in this shard. */
  readonly part: Part;
}
