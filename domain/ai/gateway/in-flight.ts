import type { Redis } from 'ioredis';
import type { Plan, Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';

/** How many calls each project has under way that somebody waits for. Jobs have the gate of their queue. */
export interface InFlight {
  /**
   * Counts one more; needs no round trip.
   * @returns to be called once it is over
   * @throws {ServiceError} `too_many_calls`
   */
  readonly take: (project: Pick<Project, 'id' | 'plan'>) => () => void;
  readonly close: () => Promise<void>;
}

export interface InFlightOptions {
  /** Null: only this process's calls count. */
  readonly redis: Redis | null;
  readonly prefix: string;
  readonly limits?: Readonly<Record<Plan, number>>;
}

const defaultLimits = { free: 20, pro: 100, enterprise: 400 } as const satisfies Record<Plan, number>;

const syncMs = 250;
/** The time for which another process's count is believed: a process that died blocks nobody after that. */
const believedMs = 2000;

interface Count {
  own: number;
  /** The calls of other processes, as far as known. */
  others: number;
  /** Redis has a count of this process: it must be reset when no call is left. */
  isPublished: boolean;
}

/**
 * KEYS[1]: a hash of a project, by process: how many, and until when that is believed (by Redis' clock, in ms).
 * ARGV: the process, its number, for how long. Answers the sum of the others.
 */
const script = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) == 0 then redis.call('hdel', KEYS[1], ARGV[1])
else
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. (now + ARGV[3]))
  redis.call('pexpire', KEYS[1], ARGV[3])
end
local all = redis.call('hgetall', KEYS[1])
local sum = 0
for i = 1, #all, 2 do
  local count, till = string.match(all[i + 1], '^(%d+) (%d+)$')
  if all[i] ~= ARGV[1] then
    if tonumber(till) < now then redis.call('hdel', KEYS[1], all[i]) else sum = sum + count end
  end
end
return sum`;

const refusal = (limit: number): ServiceError =>
  new ServiceError(
    'too_many_calls',
    `The project has ${limit} calls of models under way, as many as its plan allows.`,
    {
      details: { limit },
      hint: 'Try again once one of them has ended.',
      headers: { 'Retry-After': '1' },
    },
  );

/** Publishes to Redis four times a second, and only while there are calls. */
const startPublishing = (redis: Redis, prefix: string, counts: Map<string, Count>) => {
  const processId = newId();
  let timer: NodeJS.Timeout | undefined;

  const publish = async (): Promise<void> => {
    const entries = [...counts];
    const calls = redis.pipeline();
    for (const [projectId, { own }] of entries) {
      calls.eval(script, 1, `${prefix}:ai-calls:${projectId}`, processId, own, believedMs);
    }
    for (const [, count] of entries) count.isPublished = count.own > 0;
    const answers = (await calls.exec()) ?? [];
    entries.forEach(([, count], i) => {
      const [error, others] = answers[i] ?? [null, 0];
      if (!error) count.others = Number(others);
    });
  };

  const sync = async (): Promise<void> => {
    // While Redis is away each process limits by itself.
    if (redis.status === 'ready') await publish().catch(() => undefined);
    for (const [projectId, count] of counts) if (count.own === 0 && !count.isPublished) counts.delete(projectId);
    timer = undefined;
    wake();
  };

  const wake = (): void => {
    if (counts.size > 0) timer ??= setTimeout(() => void sync(), syncMs).unref();
  };
  return {
    wake,
    close: async () => {
      clearTimeout(timer);
      for (const count of counts.values()) count.own = 0;
      if (redis.status === 'ready') await publish().catch(() => undefined);
      counts.clear();
      clearTimeout(timer);
    },
  };
};

/**
 * Exact within a process; what others have under way is added up through Redis four times a second, so that several
 * processes can together overshoot by what they begin in a quarter of a second.
 */
export const createInFlight = ({ redis, prefix, limits = defaultLimits }: InFlightOptions): InFlight => {
  const counts = new Map<string, Count>();
  const publisher = redis && startPublishing(redis, prefix, counts);

  const releaseOnce = (projectId: string, count: Count): (() => void) => {
    let reserved = true;
    return () => {
      if (!reserved) return;
      reserved = false;
      count.own -= 1;
      if (count.own === 0 && publisher === null) counts.delete(projectId);
    };
  };

  return {
    take: ({ id, plan }) => {
      const count = counts.get(id) ?? { own: 0, others: 0, isPublished: false };
      if (count.own + count.others >= limits[plan]) throw refusal(limits[plan]);
      count.own += 1;
      counts.set(id, count);
      publisher?.wake();
      return releaseOnce(id, count);
    },
    close: async () => {
      await publisher?.close();
    },
  };
};
