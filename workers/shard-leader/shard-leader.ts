import { claimLeadership, ensureShards, releaseLeadership } from '#domain/jobs/queue-shards.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { startPoller } from '#lib/poller.ts';
import { type HeartbeatOptions, createHeartbeat, startHeartbeats } from './heartbeat.ts';
import type { ShardContext } from './context.ts';
import { type Leader, createLeader } from './leader.ts';

const roundMs = 1000;

export type ShardOptions = ShardContext & Omit<HeartbeatOptions, 'workerId'>;

export interface ShardLeadersOptions {
  readonly db: ControlDb;
  readonly log: Log;
  readonly workerId: string;
  readonly shards: readonly ShardOptions[];
}

/**
 * One worker's share in keeping its shards in order: it beats, and each shard's leader does what only one needs to do.
 * However many shards there are, a second without work costs one statement, and a sign of life in each.
 */
export interface ShardLeaders {
  /** Resolves when all shards are open. */
  readonly ready: () => Promise<void>;
  /** Admits retries of that type that are due. */
  readonly admitDue: (type: string) => Promise<void>;
  /** The worker takes no more jobs: its slots count no more. */
  readonly leave: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** The leaders that have a heartbeat's answer and no running round, with that answer. */
const readyToLead = async (leaders: readonly Leader[]) => {
  const free = leaders.filter((leader) => !leader.isBusy());
  const unheard = free.filter(({ heartbeat }) => heartbeat.latest() === null);
  await Promise.allSettled(unheard.map(({ heartbeat }) => heartbeat.beat()));
  return free.flatMap((leader) => {
    const snapshot = leader.heartbeat.latest();
    return snapshot === null ? [] : [{ leader, snapshot }];
  });
};

/** A shard's work is not awaited: slow or hanging work delays no other shard. */
const startLeading = ({ db, log, workerId }: ShardLeadersOptions, leaders: readonly Leader[]) => {
  let areKnown = false;
  const round = async (): Promise<void> => {
    const names = leaders.map(({ heartbeat }) => heartbeat.name);
    if (!areKnown) await ensureShards(db, names);
    areKnown = true;
    const ready = await readyToLead(leaders);
    if (ready.length === 0) return;
    const candidates = ready.map(({ leader }) => leader.candidate());
    const leaderships = await claimLeadership(db, candidates, workerId);
    for (const { leader, snapshot } of ready) {
      const own = leaderships.get(leader.heartbeat.name);
      if (own !== undefined) leader.begin(own, snapshot);
    }
  };
  return startPoller(round, {
    everyMs: roundMs,
    onFailure: (error) =>
      log.warn({ err: error }, 'the leadership of queue shards could not be claimed; trying again each second'),
  });
};

export const startShardLeaders = (options: ShardLeadersOptions): ShardLeaders => {
  const { db, workerId, shards } = options;
  const stopping = new AbortController();
  const leaders = shards.map((shard) => createLeader(shard, createHeartbeat({ ...shard, workerId }), stopping.signal));
  const heartbeats = leaders.map(({ heartbeat }) => heartbeat);
  const beats = startHeartbeats(options, heartbeats);
  const leading = startLeading(options, leaders);
  const all = async (work: (leader: Leader) => Promise<void>): Promise<void> => {
    await Promise.all(leaders.map(work));
  };

  return {
    ready: () => all(({ heartbeat }) => heartbeat.untilOpen()),
    admitDue: (type) => all(async (leader) => (leader.type === type ? leader.admitDue() : undefined)),
    leave: () => all(({ heartbeat }) => heartbeat.changeSlots(0)),
    stop: async () => {
      stopping.abort();
      await leading.stop();
      await all((leader) => leader.settled());
      await beats.stop();
      await all(({ heartbeat }) => heartbeat.changeSlots(null));
      const names = heartbeats.map(({ name }) => name);
      await releaseLeadership(db, names, workerId).catch(() => undefined);
    },
  };
};
