import { ensureLanes, leadLanes, leaveLanes } from '#domain/jobs/lanes.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type BeatOptions, createBeating, startBeating } from './beating.ts';
import type { KeptLane } from './lane.ts';
import { type Leader, createLeader } from './leading.ts';
import { startLoop } from './loop.ts';

const roundMs = 1000;

export type LaneOptions = KeptLane & Omit<BeatOptions, 'workerId'>;

export interface KeeperOptions {
  readonly db: ControlDb;
  readonly log: Log;
  readonly workerId: string;
  readonly lanes: readonly LaneOptions[];
}

/**
 * One worker's share in keeping its lanes in order: it beats, and each lane's leader does what only one needs to do.
 * However many lanes there are, a second without work costs one statement, and a sign of life in each.
 */
export interface Keeper {
  /** Resolves when all lanes are open. */
  readonly ready: () => Promise<void>;
  /** Admits retries of that type that are due. */
  readonly admitDue: (type: string) => Promise<void>;
  /** The worker takes no more jobs: its slots count no more. */
  readonly leave: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Those that hear their lanes and have nothing under way, with what they heard. */
const readyToLead = async (leaders: readonly Leader[]) => {
  const free = leaders.filter((leader) => !leader.isBusy());
  const deaf = free.filter(({ beating }) => beating.latest() === null);
  await Promise.allSettled(deaf.map(({ beating }) => beating.beat()));
  return free.flatMap((leader) => {
    const pulse = leader.beating.latest();
    return pulse === null ? [] : [{ leader, pulse }];
  });
};

/** A lane's work is not waited for: one that takes its time, or hangs, holds up no other. */
const startLeading = ({ db, log, workerId }: KeeperOptions, leaders: readonly Leader[]) => {
  let areKnown = false;
  const round = async (): Promise<void> => {
    const names = leaders.map(({ beating }) => beating.name);
    if (!areKnown) await ensureLanes(db, names);
    areKnown = true;
    const ready = await readyToLead(leaders);
    if (ready.length === 0) return;
    const candidates = ready.map(({ leader }) => leader.candidate());
    const held = await leadLanes(db, candidates, workerId);
    for (const { leader, pulse } of ready) {
      const own = held.get(leader.beating.name);
      if (own !== undefined) leader.begin(own, pulse);
    }
  };
  return startLoop(round, roundMs, (error) => log.warn({ err: error }, 'the lanes cannot be kept just now'));
};

export const startKeeper = (options: KeeperOptions): Keeper => {
  const { db, workerId, lanes } = options;
  const stopping = new AbortController();
  const leaders = lanes.map((lane) => createLeader(lane, createBeating({ ...lane, workerId }), stopping.signal));
  const beatings = leaders.map(({ beating }) => beating);
  const beats = startBeating(options, beatings);
  const leading = startLeading(options, leaders);
  const all = async (work: (leader: Leader) => Promise<void>): Promise<void> => {
    await Promise.all(leaders.map(work));
  };

  return {
    ready: () => all(({ beating }) => beating.untilOpen()),
    admitDue: (type) => all(async (leader) => (leader.type === type ? leader.admitDue() : undefined)),
    leave: () => all(({ beating }) => beating.changeSlots(0)),
    stop: async () => {
      stopping.abort();
      await leading.stop();
      await all((leader) => leader.settled());
      await beats.stop();
      await all(({ beating }) => beating.changeSlots(null));
      const names = beatings.map(({ name }) => name);
      await leaveLanes(db, names, workerId).catch(() => undefined);
    },
  };
};
